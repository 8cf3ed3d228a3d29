"""The command line of tracegen."""

import click

from tracegen.commands.convert import export, import_
from tracegen.commands.derive import merge, scale, slice_
from tracegen.commands.describe import diff, info, validate
from tracegen.commands.generate import generate, recipes
from tracegen.commands.options import TraceCommands


@click.group(cls=TraceCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Make, exchange, derive, compare and describe traces of KV-cache operations."""


for _command in (generate, recipes, info, validate, import_, export, merge, slice_, scale, diff):
    main.add_command(_command)
