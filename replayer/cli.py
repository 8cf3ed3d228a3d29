"""The command line of replayer: its group, and the commands in it."""

from collections.abc import Sequence
from typing import Final

import click

from replayer.commands.arrangements import arrangements
from replayer.commands.autoscale import autoscale
from replayer.commands.model import model
from replayer.commands.plan import plan
from replayer.commands.predict import predict
from replayer.commands.profile import profile
from replayer.commands.run import run
from replayer.commands.simulate import simulate
from replayer.commands.size import size
from replayer.commands.sweep import sweep
from replayer.commands.why import why
from tracegen.console.command_line import Commands

SERIES: Final = (sweep, autoscale)
"""Commands that make a series; interrupted, they continue where they stopped."""


class ReplayerCommands(Commands):
    """The commands of replayer: an error of the operating system becomes one sentence."""

    def clean_up_after_signal(self, ctx: click.Context) -> Sequence[str]:
        """Return advice for a user who interrupted the command."""
        if ctx.invoked_subcommand in {command.name for command in SERIES}:
            return ["To continue, run the same command again."]
        return []


@click.group(cls=ReplayerCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Replay traces on tiers of a KV cache: gpu, cpu and nvme."""


for command in (model, plan, why, simulate, size, arrangements, run, profile, predict, *SERIES):
    main.add_command(command)
