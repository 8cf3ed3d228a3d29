"""The option that says how a command shows progress."""

from typing import Final, Literal

import click

from replayer.options.declaring import one_of

ProgressKind = Literal["bar", "lines", "json", "off"]

# The key of the kind in the context of a command.
PROGRESS_KEY: Final = "replayer.progress"
# The flag of a process whose progress another one shows.
# A child must not draw bars over those of its parent.
PROGRESS_TO_PROGRAMS: Final = ("--progress", "json")


def _keep(context: click.Context, _option: click.Parameter, kind: ProgressKind) -> None:
    context.meta[PROGRESS_KEY] = kind


# Adds --progress to a command.
add_progress_option: Final = click.option(
    "--progress",
    type=one_of(ProgressKind),
    default="bar",
    show_default=True,
    callback=_keep,
    expose_value=False,  # only the choice of a screen asks for it
    help="How progress is shown on stderr: a bar that is redrawn (on a pipe: lines), a line every"
    " 30 s, a line of JSON twice a second, or nothing.",
)
