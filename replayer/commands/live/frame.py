"""One frame of the view: which replay, how far it is, tiers, latencies, what comes next."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from replayer.commands.live.wording import (
    describe_extent_done,
    describe_flight,
    describe_replay,
    describe_rest,
    describe_stage,
    format_ms,
    format_share,
)
from replayer.experiments.agenda import Place
from replayer.live.figures import Figures
from tracegen.errors import format_count

_RAMP: Final = "▁▂▃▄▅▆▇█"
_ASCII_RAMP: Final = "_.-=+*%#"
_WIDE: Final = 76
"""Columns from which on the figures stand in two pairs beside each other."""
_MOST_COLUMNS: Final = 100
HISTORY_S: Final = 30
"""Seconds of rates that are drawn, a character for each."""
_RATE_COLUMNS: Final = 38
"""Columns of the table of tiers to the left of the sparkline."""


def draw_frame(
    figures: Figures,
    place: Place | None,
    rates: Mapping[str, Sequence[float]],
    console: Console,
) -> RenderableType:
    """Draw a frame.

    Args:
        figures: of the task that goes on.
        place: of its replay in a series; None: there is no series.
        rates: of the last seconds by tier, in GiB/s.
        console: whose width and characters the frame fits.
    """
    columns = min(console.width, _MOST_COLUMNS)
    return Group(*_draw_parts(figures, place, rates, columns, is_ascii=console.options.ascii_only))


def _draw_parts(
    figures: Figures,
    place: Place | None,
    rates: Mapping[str, Sequence[float]],
    columns: int,
    *,
    is_ascii: bool,
) -> Iterator[RenderableType]:
    if place is not None and place.position:
        yield _draw_ends(describe_replay(place), describe_rest(place), columns, "bold")
    done = describe_extent_done(figures)
    yield _draw_ends(describe_stage(figures), done, columns, "bold cyan")
    if figures.total:
        yield _draw_bar(figures.done / figures.total, columns, "#-" if is_ascii else "━─")
    if figures.tiers:
        yield _draw_tiers(figures, rates, columns, _ASCII_RAMP if is_ascii else _RAMP)
        yield _draw_figures(figures, columns)
    if figures.failures:
        yield Text(f"{format_count(figures.failures, 'move')} FAILED", "bold red")
    if place is not None and place.next is not None:
        yield Text(f"next: {place.next}", "dim", no_wrap=True, overflow="ellipsis")


def _draw_ends(left: str, right: str, columns: int, style: str) -> Table:
    """Draw a line with a text at each end; the left one is cut if there is too little room."""
    line = Table.grid(padding=(0, 1), expand=False)
    line.width = columns
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style=style)
    line.add_column(justify="right", no_wrap=True, overflow="ellipsis")
    line.add_row(Text(left), Text(right))
    return line


def _draw_bar(share: float, columns: int, characters: str) -> Text:
    done = round(min(1.0, share) * columns)
    bar = Text(characters[0] * done, "cyan")
    return bar.append(characters[1] * (columns - done), "dim")


def _draw_tiers(figures: Figures, rates: Mapping[str, Sequence[float]], columns: int, ramp: str) -> Table:
    """Draw a line for each tier: what it reads and writes now, and both in the last seconds."""
    room = max(0, min(HISTORY_S, columns - _RATE_COLUMNS))
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    head = ("read GiB/s", "write GiB/s", f"last {room} s" if room else "")
    table.add_row("", *(Text(text, "dim") for text in head))
    for tier, rate in figures.tiers.items():
        line = draw_sparkline(rates.get(tier, ())[-room:] if room else (), ramp)
        read, written = f"{rate.read_gib_s:.2f}", f"{rate.write_gib_s:.2f}"
        table.add_row(tier, Text(read, "bold"), Text(written, "bold"), Text(line, "cyan"))
    return table


def draw_sparkline(values: Sequence[float], ramp: str) -> str:
    """Return a character for each value, the highest for the greatest of them."""
    most = max(values, default=0.0)
    steps = len(ramp) - 1
    return "".join(ramp[round(steps * value / most) if most else 0] for value in values)


def _draw_figures(figures: Figures, columns: int) -> Table:
    """Draw what the run reached so far, in one or two pairs of columns."""
    pairs = [
        ("nvme read P95 so far", format_ms(figures.nvme_read_p95_ms)),
        ("hit rate so far", format_share(figures.hit_rate)),
        ("TTFT (storage) P95 so far", format_ms(figures.first_byte_p95_ms)),
        ("in flight", describe_flight(figures)),
    ]
    beside = 2 if columns >= _WIDE else 1
    table = Table.grid(padding=(0, 2))
    for _ in range(beside):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(style="bold", no_wrap=True)
    for first in range(0, len(pairs), beside):
        table.add_row(*(cell for pair in pairs[first : first + beside] for cell in pair))
    return table
