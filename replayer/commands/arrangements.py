"""`replayer arrangements`: the rules of engines that ship with the tool."""

import click

from replayer.arrangements.loading import load_arrangement, read_shipped, shipped_names
from tracegen.console.commands import command


@command(epilog="Example: replayer arrangements lmcache")
@click.argument("name", required=False)
def arrangements(name: str | None) -> None:
    """List the arrangements that ship, or print one as TOML.

    A copy of the file, with other values, is an arrangement of your own: pass it as --arrangement.
    """
    click.echo("\n".join(_list_lines()) if name is None else read_shipped(name).rstrip())


def _list_lines() -> list[str]:
    """Return a line for each arrangement: its name, the engine that it describes, what it is."""
    lines = [f"{'name':22}{'engine, release, date':35}rules"]
    for name in shipped_names():
        arrangement = load_arrangement(name)
        source = arrangement.source
        engine = "" if source is None else f"{source.engine} {source.version}, {source.date}"
        lines.append(f"{name:22}{engine:35}{arrangement.description}")
    return lines
