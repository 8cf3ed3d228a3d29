"""`analysis report`: a page of charts, or other formats."""

from pathlib import Path

import click

from analysis.commands.directories import find_runs
from analysis.commands.target_options import target_options
from analysis.commands.terminal import echo, say, show_progress
from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import gather


@click.command(epilog="Example: analysis report run1 run2 -o report.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write this file, in the format of its suffix.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(export.FORMATS)),
    help="Write this format.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Rank all runs against this one of them.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@target_options
def report(
    runs: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    baseline: Path | None,
    force: bool,
    targets: Targets,
) -> None:
    """Write a page of charts, or other formats.

    The page is one file that needs neither network nor scripts.

    Runs of one configuration on one machine are trials; other runs are shown next to each other.
    md, csv and json are printed on the terminal without -o.
    """
    paths = find_runs(runs)
    form = export.choose_format(form, output, paths, force=force)
    data = gather(paths, targets, baseline, progress=show_progress)
    content = export.as_html(data, show_progress) if form == "html" else export.FORMATS[form](data)
    if output is None:
        echo(content.decode(), nl=False)
    else:
        export.write(output, content)
        say(f"{output}: {len(content):,} bytes")
