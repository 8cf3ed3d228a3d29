"""The first screen of a sweep: what was planned, the answer in words, large figures and doubts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from analysis.report.first_screen.form import Card, DoubtLine, FirstScreen
from analysis.report.text import format_number
from analysis.sweeps.choices import (
    ALIKE,
    ENOUGH,
    FUTURE,
    LabelSpread,
    Row,
    compare_labels,
    find_best,
    find_least,
    find_main_curve,
    find_plateau,
    list_possible,
)
from analysis.sweeps.shapes import find_cliff, find_knee
from analysis.sweeps.sweep import (
    CAPACITIES,
    MEMORY,
    Curve,
    Point,
    SweepTable,
    describe_sizes,
)
from tracegen.errors import format_count

STATE: Final = "Planned, not measured."
SHORT_S: Final = 3600
"""Seconds of a trace below which its bytes per day are doubted: a day has quiet hours, too."""
_LISTED: Final = 6
"""Most values of an axis that are listed."""
_LARGE: Final = 16
"""Most letters that fit a card in its large type."""
_SHOWN: Final = 0.0005
"""Hit rates that differ by less look the same with one decimal."""


def compose_answer(sweep: SweepTable) -> str:
    """Return how much memory to take, and which rules, in a few sentences."""
    best = find_best(sweep)
    if best is None:
        return "No cell has a prompt, so no memory helps."
    spread = compare_labels(sweep)
    label, with_label = sweep.label(best), ""
    if spread is not None and not spread.is_alike:
        label, with_label = spread.best, spread.best
    curve = find_main_curve(sweep, label)
    sentences = [describe_growth(curve, with_label) if curve else _describe_cell(sweep, best)]
    if spread is not None:
        sentences.append(_describe_spread(sweep, spread))
    return " ".join(sentences)


def _describe_cell(sweep: SweepTable, best: Row) -> str:
    """Return what the best cell hits, where no capacity differs."""
    sizes = describe_sizes(best, [name for name in CAPACITIES if best[name] != 0])
    rules = f" with {sweep.label(best)}" if len(sweep.cells) > 1 else ""
    rate = _number(best, "hit_rate_tokens")
    bound = _describe_bound(rate, _number(best, "bound_tokens"))
    return f"{_begin(sizes)} hits {_percent(rate)} of prompt tokens{rules}; {bound}."


def describe_growth(curve: Curve, label: str = "") -> str:
    """Return what more memory of a tier brings, as a sentence.

    Args:
        curve: hit rates.
        label: of the curve, if it has to be named.
    """
    points, memory = curve.points, MEMORY[curve.tier]
    plateau, knee, top = find_plateau(curve), find_knee(curve), max(map(_rate, points))
    named = [points[0] if knee is None else knee, plateau]
    if curve.without is not None and knee is None:
        named = [plateau]
    sizes = {point.gib: point for point in named if point.gib <= plateau.gib}
    first, *others = sizes.values()
    parts = [f"{first.gib:g} GiB of {memory} hits {_percent(first.rate)} of prompt tokens"]
    parts += [f"{point.gib:g} GiB {_percent(point.rate)}" for point in others]
    if curve.without is not None:
        parts.append(f"no {memory} {_percent(curve.without.rate)}")
    beside = [part for part in (label, curve.beside) if part]
    start = f"with {' and '.join(beside)}, " if beside else ""
    clauses = [_begin(start + ", ".join(parts))]
    if (cliff := find_cliff(curve)) is not None and knee is None:
        clauses.append(f"the steepest step is from {cliff.below.gib:g} to {cliff.above.gib:g} GiB")
    if plateau is not points[-1]:
        gained = top - plateau.rate
        more = "nothing" if gained < _SHOWN else f"only {100 * gained:.1f} points"
        clauses.append(f"larger sizes add {more}")
    elif len(points) > 1 and curve.bound is not None and curve.bound - top >= ALIKE:
        clauses.append("it still rises at the largest size planned")
    if curve.bound is not None:
        clauses.append(_describe_bound(top, curve.bound))
    return "; ".join(clauses) + "."


def _rate(point: Point) -> float:
    return point.rate


def _describe_bound(rate: float, bound: float) -> str:
    if bound - rate < _SHOWN:
        return "unlimited memory would hit no more"
    return f"unlimited memory would reach {_percent(bound)}"


def _describe_spread(sweep: SweepTable, spread: LabelSpread) -> str:
    """Return which rules hit the most, or that they make no difference."""
    noun = sweep.rules
    if spread.is_alike:
        every = "both" if spread.labels == 2 else f"all {spread.labels}"
        return f"The choice of {noun} hardly matters: {every} are within 0.5 points at every size."
    ahead = f"up to {spread.points:.1f} points more than {spread.other}"
    if sweep.axes:
        ahead += f" (at {describe_sizes(spread.row, sweep.axes)})"
    return f"Of {spread.labels} {noun}, {spread.best} hits the most on average, {ahead}."


def make_screen(sweep: SweepTable, title: str = "") -> FirstScreen:
    """Return the first screen of a sweep.

    Args:
        sweep: the cells.
        title: its heading; if empty, one from trace and model.
    """
    models = ", ".join(map(str, sweep.cells["model"].unique(maintain_order=True)))
    return FirstScreen(
        kicker=f"kv-tier-bench report of {format_count(len(sweep.cells), 'plan')}",
        title=title or f"{Path(sweep.info.trace).name} on {models}: how much memory pays?",
        tested=list(_list_tested(sweep)),
        state=STATE,
        answer=compose_answer(sweep),
        cards=list(_list_cards(sweep)),
        doubts=list(_list_doubts(sweep)),
    )


def _list_tested(sweep: SweepTable) -> Iterator[str]:
    info, cells = sweep.info, sweep.cells
    order = "in the trace's order"
    if info.order.kind == "reference":
        order = f"in the order of users on the reference system {info.order.name}"
    elif info.order.kind == "run":
        order = f"in the order of the run {info.order.name}"
    yield f"{info.trace}: {info.ops:,} ops in {info.span_s:,.0f} s; {order}"
    parts = [f"{MEMORY[tier]} {_list_values(cells[name])}" for name, tier in CAPACITIES.items()]
    shown = [part for part in parts if not part.endswith(" none")]
    if sweep.cells.n_unique(sweep.labels) > 1:
        labels = list(dict.fromkeys(map(sweep.label, cells.iter_rows(named=True))))
        shown.append(f"{sweep.rules}: {_shorten(labels)}")
    else:
        shown.append(f"{cells['arrangement'][0]}, {cells['policy'][0]}")
    yield "; ".join(shown)
    if info.prediction is not None:
        yield f"times predicted from the profile {info.prediction.profile}"


def _list_values(sizes: pl.Series) -> str:
    """Return the capacities of a tier, as `0.5, 1 GiB`; `none` without any."""
    values = sizes.unique().sort(nulls_last=True).to_list()
    if values == [0]:
        return "none"
    words = ["unlimited" if one is None else f"{one:g}" if one else "none" for one in values]
    return _shorten(words) + (" GiB" if values[-1] is not None else "")


def _shorten(words: list[str]) -> str:
    if len(words) <= _LISTED:
        return ", ".join(words)
    return f"{', '.join(words[: _LISTED - 1])} … {words[-1]}"


def _list_cards(sweep: SweepTable) -> Iterator[Card]:
    best = find_best(sweep)
    if best is None:
        return
    bound = _number(best, "bound_tokens")
    most = _percent(best["hit_rate_tokens"])
    yield Card("Most prompt tokens that hit", most, range=sweep.name(best))
    yield Card("With unlimited memory", _percent(bound), hint="the bound for every size")
    least = find_least(sweep)
    label = f"Least memory for {ENOUGH:.0%} of that"
    if least is None:
        yield Card(label, "not reached", range=f"{_percent(ENOUGH * bound)} of prompt tokens")
    else:
        yield _make_size_card(sweep, label, least)
        yield _make_wear_card(least)
        without = find_least(sweep, drive=False)
        if without is not None and without["cell"] != least["cell"]:
            yield _make_size_card(sweep, "The same without a drive", without)
    if (spread := compare_labels(sweep)) is not None:
        yield _make_rules_card(sweep, spread)
    yield from _list_time_cards(sweep)


def _make_size_card(sweep: SweepTable, label: str, row: Row) -> Card:
    chosen = [name for name in sweep.axes or CAPACITIES if row[name] != 0]
    sizes = [(MEMORY[CAPACITIES[name]], row[name]) for name in chosen]
    if not sizes:
        return Card(label, "none", range=f"{_percent(row['hit_rate_tokens'])} of prompt tokens")
    value = " + ".join("∞" if gib is None else f"{gib:g}" for _, gib in sizes)
    memory = " + ".join(memory for memory, _ in sizes)
    hits = f"{_percent(row['hit_rate_tokens'])} of prompt tokens; {sweep.label(row)}"
    if len(sizes) > 1:
        return Card(label, value, range=f"GiB of {memory}", hint=hits)
    return Card(label, value, "GiB", memory, hits)


def _make_wear_card(row: Row) -> Card:
    label, written = "Drive writes per day, there", row["drive_writes_per_day"]
    if row["storage_capacity_gb"] == 0:
        return Card(label, "none", range="no drive")
    gib = row["write_bytes_per_day_nvme"]
    if written is None or gib is None:
        why = "an unlimited drive" if row["storage_capacity_gb"] is None else "no time in the trace"
        return Card(label, None, range=why)
    per_day = f"{format_number(_number(row, 'write_bytes_per_day_nvme') / 2**30)} GiB a day"
    pace = "at the trace's own pace; lower is better"
    return Card(label, format_number(written), range=per_day, hint=pace)


def _make_rules_card(sweep: SweepTable, spread: LabelSpread) -> Card:
    label = f"Best of {spread.labels} {sweep.rules}"
    if spread.is_alike:
        return Card(label, "equal", range="within 0.5 points at every size")
    ahead = f"up to {spread.points:.1f} points above {spread.other}"
    if len(spread.best) > _LARGE:
        return Card(label, f"+{spread.points:.1f}", "points", f"{spread.best} above {spread.other}")
    return Card(label, spread.best, range=ahead)


def _list_time_cards(sweep: SweepTable) -> Iterator[Card]:
    if "wall_clock_tok_s" not in sweep.cells.columns:
        return
    cells = list_possible(sweep).drop_nulls("wall_clock_tok_s")
    if len(cells):
        row = cells.sort(-pl.col("wall_clock_tok_s"), "cell").row(0, named=True)
        rate = format_number(round(row["wall_clock_tok_s"]))
        yield Card("Fastest, predicted", rate, "tokens/s", sweep.name(row))


def _list_doubts(sweep: SweepTable) -> Iterator[DoubtLine]:
    info = sweep.info
    times = "nothing here says how fast a drive is"
    if info.prediction is not None:
        times = "times are predicted from a profile"
    yield DoubtLine(
        "Planned, not measured",
        f"Hits and bytes are those of plans, which a replay would execute exactly; {times}",
        "execute the cell that you choose with `replayer run`",
    )
    if info.span_s < SHORT_S:
        yield DoubtLine(
            "Short trace",
            f"The trace spans {info.span_s:,.0f} s. Bytes and drive writes per day are those of a"
            " machine that is as busy as this all day, and a longer trace may ask for more memory",
            "plan an hour or more of your own log",
        )
    if (gap := _find_gap(sweep)) is not None:
        yield gap
    if info.order.kind != "trace":
        yield DoubtLine(
            "Order differs between plans",
            "A faster system gets its next requests sooner, so plans do not see one sequence of"
            " requests, nor does the bound: differences of a few tenths of a point mean nothing",
            "plan in the trace's order to compare policies",
        )
    if sweep.cells["policy"].str.contains(FUTURE, literal=True).any():
        yield DoubtLine(
            f"{FUTURE.capitalize()} is a bound",
            f"No engine can have the policy {FUTURE}, which knows the future; it is drawn, and"
            " neither chosen nor compared above",
            "take the distance to it as what a better policy could still gain",
        )


def _find_gap(sweep: SweepTable) -> DoubtLine | None:
    """Return the doubt that a smaller size than the least one might do; None without a smaller."""
    least = find_least(sweep)
    if least is None:
        text = f"No cell hits {ENOUGH:.0%} of what unlimited memory hits"
        return DoubtLine("Too little memory", text, "plan larger sizes")
    for name, tier in CAPACITIES.items():
        below = [one for one in sweep.cells[name] if least[name] is not None and one is not None]
        size = _number(least, name) if below else 0.0
        smaller = max((one for one in below if one < size), default=None)
        if smaller is not None:
            between = f"{smaller:g} and {size:g} GiB of {MEMORY[tier]}"
            return DoubtLine(
                f"No size between {between} was planned",
                "The least size that hits enough may be anywhere between these two",
                "plan sizes in between, or search with `replayer size`",
            )
    return None


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return float(value)


def _percent(share: object) -> str:
    assert isinstance(share, int | float)
    return f"{share:.1%}"
