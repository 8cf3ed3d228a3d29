"""The answer of a command: what was asked, what was found, how sure that is, and what to do next.

Every command of the three packages makes an Answer; the other modules of this folder render it.
Nothing here rounds, aligns or declines: values are numbers in the unit that they name.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:  # every command imports this module, and `--help` needs no polars
    import polars as pl

# The colour of a state: valid, not valid, or no verdict, as on a plan without measurements
Tone = Literal["good", "bad", "plain"]

# Which direction of a figure is better; empty if neither is
Better = Literal["higher", "lower", ""]

# A cell of a table; None was not measured
Cell = str | float | bool | None


class Figure(Struct, frozen=True, kw_only=True):
    """A large figure of an answer.

    Attributes:
        name: its name for programs, as that of a metric.
        label: what it is, in words.
        value: the value; None was not measured.
        text: the finding, if it is a word instead of a number.
        unit: its unit as views/numbers.py knows it: "share", "ratio", "bytes", "s", or any word.
        low: lower end of its 95% interval.
        high: upper end of its 95% interval.
        is_more_than: whether the value is only a lower bound, because runs were cut.
        better: which direction is better.
        note: its samples or trials, or why it was not measured.
    """

    name: str
    label: str
    value: float | None
    text: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    is_more_than: bool = False
    better: Better = ""
    note: str = ""


class Column(Struct, frozen=True):
    """A column of a table.

    Attributes:
        heading: its heading.
        unit: the unit of its numbers, as of a Figure; numbers of a column share their decimals.
    """

    heading: str
    unit: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """A table; the first cell of a row names the row.

    Attributes:
        title: its caption.
        columns: its columns.
        rows: its cells by row, raw numbers or words.
        name: its name for programs.
        section: heading of the part of a page under which it stands.
        notes: remarks below it, a sentence each.
        is_folded: whether a page shows it only when it is opened, and text and JSON not at all.
        is_turned: whether people see a line per column, as of many metrics of a few runs.
        marked: numbers of the rows that are the answer's.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    name: str = ""
    section: str = ""
    notes: Sequence[str] = ()
    is_folded: bool = False
    is_turned: bool = False
    marked: frozenset[int] = frozenset()


class Axis(Struct, frozen=True, kw_only=True):
    """A quantity on an axis of a chart.

    Attributes:
        title: the quantity with its unit.
        is_log: whether the scale is logarithmic.
        is_share: whether its numbers are shares, shown in percent.
        is_ratio: whether they are ratios, shown as times on both sides of 1 on a logarithmic scale.
        has_zero: whether a linear scale begins at zero.
        domain: ends of the axis; None to fit the data.
        ticks: values with a tick; None to choose them.
        order: names along a vertical axis that has names instead of numbers.
    """

    title: str
    is_log: bool = False
    is_share: bool = False
    is_ratio: bool = False
    has_zero: bool = True
    domain: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    order: Sequence[str] = ()


class Rule(Struct, frozen=True, kw_only=True):
    """A line across a chart: a target, a bound, or a moment.

    Attributes:
        label: what it is.
        y: its height, for a target or bound.
        x: its place, for a moment.
        panel: the only panel that has it; empty for all.
    """

    label: str
    y: float | None = None
    x: float | None = None
    panel: str = ""


# How a chart shows its rows.
#
# lines: y over x, with points at rows that have a note, and error bars from `low` to `high`;
# bands: lines of many points, with the band from `low` to `high`;
# steps: lines that hold their value until the next x;
# points: marks alone, with error bars from `low` to `high`;
# bars: horizontal stacked bars of x by part `series`, one per name `y`;
# intervals: values x per name `y`, with a bar from `low` to `high`, and `text` at the right;
# dots: values x per name `y`, with a bar from `low` to `high`, and a tick at `target`.
Kind = Literal["lines", "bands", "steps", "points", "bars", "intervals", "dots"]


class Chart(Struct, frozen=True, kw_only=True):
    """A chart as data.

    Attributes:
        name: its id in a page, and the name of its files.
        title: its heading.
        caption: how to read it, and how it is computed.
        kind: how its rows are shown.
        rows: a row per mark: x, y, and if they apply series, panel, low, high, text, target, hollow
            (a point that decides nothing), note (a point's tooltip; made if no row has one).
        x: the horizontal axis.
        y: the vertical axis.
        series: the series in the order of the legend; empty to take that of the rows.
        colours: names of colours in views/svg.py by series; others have a colour of their own.
        dashed: series that were predicted.
        rules: lines across it.
        section: heading of the part of a page under which it stands.
    """

    name: str
    title: str
    caption: str
    kind: Kind
    rows: "pl.DataFrame"
    x: Axis
    y: Axis
    series: Sequence[str] = ()
    colours: Mapping[str, str] = {}
    dashed: frozenset[str] = frozenset()
    rules: Sequence[Rule] = ()
    section: str = "Charts"


class DoubtLine(Struct, frozen=True, kw_only=True):
    """A doubt on an answer.

    Attributes:
        headline: the doubt in a few words, as "short run".
        text: the finding with its figures.
        advice: the remedy.
        runs: the runs that have it, as "2 of 3 runs"; empty if there is one run.
        invalidates: whether the figures must not be published.
    """

    headline: str
    text: str
    advice: str
    runs: str = ""
    invalidates: bool = False


class Answer(Struct, frozen=True, kw_only=True):
    """The finding of a command.

    Attributes:
        title: its heading.
        sentence: the answer in plain words.
        kicker: what it is, as "kv-tier-bench report of 3 trials".
        subject: what was tested: a line each of machine, workload and settings.
        state: the verdict in capitals, as "VALID" or "PREDICTED"; empty if there is none to give.
        tone: the colour of the state.
        figures: the large figures.
        tables: the tables, in their order.
        charts: the charts, in their order.
        doubts: what makes one distrust it, those that invalidate first.
        next: commands or steps to take now.
        source: what it was made from, as "the logs".
        sections: parts of a page in their order; others follow in that of charts and tables.
        records: rows of the CSV format; None to take the first table.
        data: values for programs that read JSON, beside those shown.
    """

    title: str
    sentence: str
    kicker: str = ""
    subject: Sequence[str] = ()
    state: str = ""
    tone: Tone = "plain"
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    doubts: Sequence[DoubtLine] = ()
    next: Sequence[str] = ()
    source: str = ""
    sections: Sequence[str] = ()
    records: "pl.DataFrame | None" = None
    data: Mapping[str, Any] = {}
