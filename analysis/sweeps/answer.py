"""The answer of a sweep: how much memory pays, and which rules hit the most."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
from msgspec import to_builtins

from analysis.sweeps.charts import list_charts
from analysis.sweeps.sweep import (
    ALIKE,
    CAPACITIES,
    ENOUGH,
    MEMORY,
    RATE,
    Curve,
    LabelSpread,
    Row,
    SweepTable,
    compare_labels,
    describe_size,
    describe_sizes,
    find_best,
    find_front,
    find_knee,
    find_least,
    find_main_curve,
    find_plateau,
)
from replayer.schema import FUTURE
from tracegen.errors import format_count
from views.answer import Answer, Column, DoubtLine, Figure, Table

# Seconds of a trace below which its bytes per day are doubted: a day has quiet hours, too.
SHORT_S: Final = 3600
# Most rows that are listed without being asked for.
_OPEN_ROWS: Final = 20
_BOUND: Final = "unlimited memory"
_DAY: Final = "drive written, GiB/day"
# Columns of the table of plans, by those of the sweep; others are shown by their names.
_COLUMNS: Final = {
    **{name: Column(f"{MEMORY[tier]}, GiB") for name, tier in CAPACITIES.items()},
    "cell": Column("plan"),
    "hit_rate_tokens": Column("hit rate", "share"),
    "bound_tokens": Column("bound", "share"),
    "hit_rate_ops": Column("hits, reads", "share"),
    "hit_rate_requests": Column("hits, requests", "share"),
    "wall_clock_tok_s": Column("tokens/s, predicted"),
    "ttfb_p95_ms": Column("TTFT of storage, P95, ms, predicted"),
    "recomputed_tokens": Column("tokens recomputed"),
    "evictions_cpu": Column("evicted from DRAM"),
    "evictions_nvme": Column("evicted from the drive"),
    "peak_read_gib_s_nvme": Column("drive read, peak GiB/s"),
    "peak_write_gib_s_nvme": Column("drive written, peak GiB/s"),
    "drive_writes_per_day": Column("drive writes/day"),
    _DAY: Column(_DAY),
}


def answer_sweep(sweep: SweepTable, title: str = "") -> Answer:
    """Make the answer of a sweep; its title is `title`, or one from trace and model."""
    models = ", ".join(map(str, sweep.cells["model"].unique(maintain_order=True)))
    front = find_front(sweep)
    return Answer(
        kicker=f"kv-tier-bench report of {format_count(len(sweep.cells), 'plan')}",
        title=title or f"{Path(sweep.info.trace).name} on {models}: how much memory pays?",
        subject=list(_list_subject(sweep)),
        state="PLANNED",
        sentence=compose_sentence(sweep),
        figures=list(_list_figures(sweep)),
        tables=[tabulate_cells(sweep), _tabulate_settings(sweep)],
        charts=list(list_charts(sweep)),
        doubts=list(_list_doubts(sweep)),
        source="the plans alone",
        data={
            "simulation": to_builtins(sweep.info),
            "front": front.filter("front").to_dicts() if len(front) else [],
            "cells": sweep.cells.to_dicts(),
        },
    )


def compose_sentence(sweep: SweepTable) -> str:
    """Say how much memory to take, and with which rules."""
    best = find_best(sweep)
    if best is None:
        return "No cell has a prompt, so no memory helps."
    spread = compare_labels(sweep)
    winner = "" if spread is None or spread.is_alike else spread.best
    curve = find_main_curve(sweep, winner or sweep.label(best))
    if curve is not None:
        hits = describe_growth(curve, winner)
    else:  # no capacity differs
        sizes = describe_sizes(best, [name for name in CAPACITIES if best[name] != 0])
        label = sweep.label(best) if len(sweep.cells) > 1 else ""
        rates = {sizes: best["hit_rate_tokens"], _BOUND: best["bound_tokens"]}
        hits = f"{_list_hits(rates, label)}."
    return " ".join(filter(None, (hits, _describe_spread(sweep, spread))))


def describe_growth(curve: Curve, label: str = "") -> str:
    """Say what the least size, the knee and the plateau hit, and unlimited memory.

    Args:
        curve: hit rates.
        label: of the curve, if it has to be named.
    """
    plateau = find_plateau(curve)
    points = [curve.planned[0], find_knee(curve) or plateau, plateau]
    named = {describe_size(curve.tier, gib): rate for gib, rate in points if gib <= plateau.gib}
    beside = " and ".join(filter(None, (label, curve.beside)))
    hits = _list_hits(named | {_BOUND: curve.bound}, beside)
    if plateau == curve.points[-1]:
        return f"{hits}."
    return f"{hits}; larger sizes add less than {100 * ALIKE:g} points."


def _list_hits(rates: Mapping[str, Any], beside: str) -> str:
    """List hit rates by size; `beside` is what all of them share."""
    (size, rate), *others = [(size, rate) for size, rate in rates.items() if rate is not None]
    listed = "".join(f", {other} {share:.1%}" for other, share in others)
    start = f"With {beside}, " if beside else ""
    return f"{start}{size} hits {rate:.1%} of prompt tokens{listed}"


def _describe_spread(sweep: SweepTable, spread: LabelSpread | None) -> str:
    """Say which rules hit the most, or that they make no difference."""
    if spread is None:
        return ""
    if spread.is_alike:
        within = f"all {spread.labels} are within {100 * ALIKE:g} points at every size"
        return f"The choice of {sweep.rules} hardly matters: {within}."
    place = f" (at {describe_sizes(spread.row, sweep.axes)})" if sweep.axes else ""
    ahead = f"up to {spread.points:.1f} points more than {spread.other}{place}"
    return f"Of {spread.labels} {sweep.rules}, {spread.best} hits the most on average, {ahead}."


def _list_subject(sweep: SweepTable) -> Iterator[str]:
    info, cells = sweep.info, sweep.cells
    order = f"that of the {info.order.kind} {info.order.name}" if info.order.name else "the trace's"
    yield f"{info.trace}: {info.ops:,} ops in {info.span_s:,.0f} s; order: {order}"
    for name, tier in CAPACITIES.items():
        sizes = cells[name].unique().sort(nulls_last=True).to_list()
        if sizes != [0]:
            words = ("unlimited" if gib is None else f"{gib:g}" for gib in sizes)
            yield f"{MEMORY[tier]}, GiB: {', '.join(words)}"
    labels = dict.fromkeys(map(sweep.label, cells.iter_rows(named=True)))
    rules = f"arrangement {cells['arrangement'][0]}, policy {cells['policy'][0]}"
    yield f"{sweep.rules}: {', '.join(labels)}" if len(labels) > 1 else rules
    if info.prediction is not None:
        yield f"times predicted from the profile {info.prediction.profile}"


def _list_figures(sweep: SweepTable) -> Iterator[Figure]:
    best = find_best(sweep)
    if best is None:
        return
    most = "most prompt tokens that hit"
    yield _make_figure(best, RATE, most, "share", sweep.name(best))
    yield _make_figure(best, "bound_tokens", f"with {_BOUND}", "share", "the bound for every size")
    least, without = find_least(sweep), find_least(sweep, drive=False)
    # The least memory with a drive, and what it takes to do without one.
    for row, purpose in ((least, f"for {ENOUGH:.0%} of that"), (without, "for the same without a drive")):
        if row is None or (row is without and row == least):
            continue
        note = f"{row[RATE]:.1%} of prompt tokens, {sweep.label(row)}"
        for name in filter(row.get, sweep.axes or CAPACITIES):
            yield _make_figure(row, name, f"{MEMORY[CAPACITIES[name]]} {purpose}", "GiB", note)
        if row["drive_writes_per_day"]:
            label, note = "drive writes per day, there", "at the trace's own pace; lower is better"
            yield _make_figure(row, "drive_writes_per_day", label, "", note)


def _make_figure(row: Row, name: str, label: str, unit: str, note: str) -> Figure:
    return Figure(name=name, label=label, value=row[name], unit=unit, note=note)  # type: ignore[arg-type]


def tabulate_cells(sweep: SweepTable) -> Table:
    """Return the cells: what differs between them, and their main counts.

    Counts of a tier that no cell has are left out. The cell with the least memory is marked.
    """
    per_day = (pl.col("write_bytes_per_day_nvme") / 2**30).alias(_DAY)
    absent = [tier for name, tier in CAPACITIES.items() if (sweep.cells[name] == 0).all()]
    hidden = ("cell", *CAPACITIES, *((_DAY, "drive_writes_per_day") if "nvme" in absent else ()))
    known = sweep.cells.with_columns(per_day)
    counts = [name for name in _COLUMNS if name in known.columns and not name.endswith(tuple(absent))]
    cells = known.select("cell", *sweep.labels, *sweep.axes, *(name for name in counts if name not in hidden))
    least = find_least(sweep)
    return Table(
        name="plans",
        title=f"{len(cells):,} plans",
        columns=[_COLUMNS.get(name, Column(name)) for name in cells.columns],
        rows=cells.rows(),
        is_folded=len(cells) > _OPEN_ROWS,
        marked=frozenset(number for number, cell in enumerate(cells["cell"]) if least and cell == least["cell"]),
    )


def _tabulate_settings(sweep: SweepTable) -> Table:
    info = sweep.info
    origin = {"trace fingerprint": info.trace_fingerprint, "made by": info.release}
    return Table(
        name="settings",
        title="Settings of all plans",
        columns=[Column("setting"), Column("value")],
        rows=[*(origin | info.settings).items()],
        is_folded=True,
    )


def _list_doubts(sweep: SweepTable) -> Iterator[DoubtLine]:
    info = sweep.info
    source = "no time is known" if info.prediction is None else "times are predicted from a profile"
    yield DoubtLine(
        headline="planned, not measured",
        text=f"a replay would execute exactly these hits and bytes; {source}",
        advice="execute the cell that you choose with `replayer run`",
    )
    if info.span_s < SHORT_S:
        yield DoubtLine(
            headline="short trace",
            text=f"it spans {info.span_s:,.0f} s, so bytes and drive writes per day are those of a"
            " machine that is as busy as this all day, and a longer trace may ask for more memory",
            advice="plan an hour or more of your own log",
        )
    if find_least(sweep) is None:
        text = f"no cell hits {ENOUGH:.0%} of what {_BOUND} hits"
        yield DoubtLine(headline="too little memory", text=text, advice="plan larger sizes")
    if info.order.kind != "trace":
        yield DoubtLine(
            headline="order differs between plans",
            text="a faster system gets its next requests sooner, so plans do not see one sequence of"
            " requests, nor does the bound: differences of a few tenths of a point mean nothing",
            advice="plan in the trace's order to compare policies",
        )
    if sweep.cells["policy"].str.contains(FUTURE, literal=True).any():
        yield DoubtLine(
            headline=f"{FUTURE} is a bound",
            text="no engine can know the future: it is drawn, and neither chosen nor compared",
            advice="take the distance to it as what a better policy could still gain",
        )
