"""The answer to "how much memory?": what to take, tables of sizes, and how far to trust it."""

import itertools
from collections.abc import Iterator
from typing import Final

import msgspec

from replayer.planning.counts import GIB
from replayer.questions.plan import describe_decode
from replayer.questions.size import Sized
from replayer.questions.sizes import Judged, SizePlanner, Wanted
from replayer.record.options import By
from views.answer import Answer, Axis, Cell, Chart, Column, DoubtLine, Figure, Rule, Table
from views.numbers import format_number, format_value

_COUNTED: Final[dict[By, str]] = {"ops": "reads", "tokens": "prompt tokens", "requests": "requests"}
_TIERS: Final = {"cpu": "DRAM", "nvme": "NVMe"}
_PAIR_COLUMNS: Final = (
    Column("DRAM GiB"),
    Column("NVMe GiB"),
    Column("hit rate", "share"),
    Column("drive writes/day"),
    Column("NVMe GiB/s"),
    Column("cost"),
    Column("misses"),
)


def answer_size(sized: Sized, planner: SizePlanner, model: str) -> Answer:
    """Return the sizes that were found as an answer."""
    wanted, plan, chosen = planner.wanted, planner.plan, sized.chosen
    targets = {name: getattr(wanted, name) for name in ("by", "dwpd", "nvme_gib_s")}
    per_token = f"{plan.options.bytes_per_token.per_token:,} bytes per token"
    answer = Answer(
        title=f"Memory for {model}: {plan.trace.path}",
        sentence=_explain_failure(sized, wanted),
        subject=[f"{per_token}; {describe_decode(plan)}", f"targets: {'; '.join(_list_targets(wanted))}"],
        tables=[_tabulate_pairs(sized)] if sized.pairs else [],
        source=f"{sized.plans} plans, without I/O",
        data={"model": model, "targets": {"hit_rate": float(wanted.hit_rate), **targets}, **msgspec.to_builtins(sized)},
    )
    if chosen is None:
        return answer
    curve = _tabulate_curve(sized)
    return msgspec.structs.replace(
        answer,
        sentence=_recommend(sized, chosen, wanted),
        figures=[
            Figure(name="dram", label="DRAM", value=chosen.cpu_gib * GIB, unit="bytes"),
            Figure(name="nvme", label="NVMe", value=(chosen.nvme_gib or 0) * GIB, unit="bytes"),
            Figure(
                name="hit_rate",
                label=f"{_COUNTED[wanted.by]} that hit",
                value=chosen.hit_rate,
                unit="share",
                better="higher",
            ),
        ],
        tables=[*answer.tables, curve],
        charts=[_draw_curve(sized, curve, wanted)],
        doubts=list(_list_doubts(sized)),
    )


def _list_targets(wanted: Wanted) -> Iterator[str]:
    yield f"hits for {_name_rate(wanted)}"
    if wanted.dwpd is not None:
        yield f"at most {wanted.dwpd:g} drive writes per day"
    if wanted.nvme_gib_s is not None:
        yield f"nvme at most {wanted.nvme_gib_s:g} GiB/s in the busiest minute"


def _name_rate(wanted: Wanted) -> str:
    return f"{float(wanted.hit_rate) * 100:.6g}% of {_COUNTED[wanted.by]}"


def _tabulate_pairs(sized: Sized) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            format_number(pair.cpu_gib),
            "unlimited" if pair.nvme_gib is None else format_number(pair.nvme_gib),
            pair.hit_rate,
            pair.drive_writes_per_day,
            pair.nvme_gib_s,
            pair.cost,
            ", ".join(pair.missed),
        )
        for pair in sized.pairs
    ]
    # No column for prices that are unknown, or for targets that no pair misses.
    columns = zip(_PAIR_COLUMNS, zip(*rows, strict=True), strict=True)
    shown = {column: cells for column, cells in columns if set(cells) - {None, ""}}
    paceless = "all requests arrive at once: there is no busiest minute, and no day"
    return Table(
        title="The least NVMe for each DRAM",
        name="pairs",
        columns=list(shown),
        rows=list(zip(*shown.values(), strict=True)),
        notes=[paceless] if sized.bound.nvme_gib_s is None else [],
        marked=frozenset(at for at, pair in enumerate(sized.pairs) if pair == sized.chosen),
    )


def _tabulate_curve(sized: Sized) -> Table:
    """Return the sizes to which the larger tier is halved; a star marks the cliff."""
    tier, rates = _TIERS[sized.halved], [size.hit_rate or 0.0 for size in sized.curve]
    lost = [rate - half for rate, half in itertools.pairwise(rates)]
    sizes = [getattr(size, f"{sized.halved}_gib") for size in sized.curve]
    return Table(
        title=f"{tier} halved again and again; * the cliff",
        name="curve",
        columns=[Column(f"{tier} GiB"), Column("hit rate", "share"), Column("lost by halving", "share")],
        rows=list(zip(map(format_number, sizes), rates, [*lost, None], strict=True)),
        marked=frozenset() if sized.cliff is None else frozenset([sized.cliff]),
    )


def _draw_curve(sized: Sized, curve: Table, wanted: Wanted) -> Chart:
    import polars as pl  # noqa: PLC0415 (`size --help` needs none)

    marks = [(getattr(size, f"{sized.halved}_gib"), size.hit_rate) for size in sized.curve]
    return Chart(
        name="size",
        title="Hits over memory",
        caption="Each point is a plan of the whole trace; the steepest step down is the cliff.",
        kind="lines",
        rows=pl.DataFrame(marks, schema=["x", "y"], orient="row"),
        x=Axis(title=curve.columns[0].heading, is_log=True),
        y=Axis(title=f"{_COUNTED[wanted.by]} that hit", is_share=True),
        rules=[
            Rule(label="target", y=float(wanted.hit_rate)),
            Rule(label="a cache that never evicts", y=sized.bound.hit_rate),
        ],
    )


def _recommend(sized: Sized, chosen: Judged, wanted: Wanted) -> str:
    """Return what to buy, what keeps it from being smaller, and where halving costs the most."""
    most = f"{_hits(sized.bound)} of {_COUNTED[wanted.by]}"
    told = [f"Take {_name(chosen)}. No size hits more than {most}."]
    if sized.binds:
        told.append(f"What binds is the {' and the '.join(sized.binds)}: ")
        told[-1] += "; ".join(map(_name, sized.one_step_smaller)) + "."
    if sized.cliff is not None:
        above, below = sized.curve[sized.cliff : sized.cliff + 2]
        told.append(f"The cliff is from {_name(above)} to {_name(below)}.")
    return " ".join(told)


def _explain_failure(sized: Sized, wanted: Wanted) -> str:
    """Return why no sizes reach the targets."""
    rate, bound = _name_rate(wanted), _hits(sized.bound)
    if not sized.pairs:
        new = "; prompt tokens that are new never hit" if wanted.by == "tokens" else ""
        told = f"{rate} cannot be had: a cache that never evicts hits {bound}{new}."
        return f"{told} Ask for a lower rate, or for other rules."
    closest = _name(sized.pairs[-1])
    return f"No size reaches the targets, though a cache that never evicts hits {bound}: {closest}."


def _list_doubts(sized: Sized) -> Iterator[DoubtLine]:
    """Say how sizes of the first half do on the second, and the sizes found in another order."""
    if sized.halves is not None:
        first, second = _name(sized.halves.first), _name(sized.halves.second)
        yield DoubtLine(
            headline="another hour may differ",
            text=f"the first half of the requests alone asks for {first}; on the second: {second}",
            advice="size on a longer log",
        )
    if sized.as_served is not None and sized.as_served.missed:
        yield DoubtLine(
            headline="too small in a server's order",
            text=f"in the order of a server, in which `replayer plan` plans, {_name(sized.as_served)}",
            advice="pass --order reference, which sizes in that order, or take more",
        )


def _name(judged: Judged) -> str:
    """Name sizes, what they hit, and the targets that they miss."""
    sizes = {"DRAM": judged.cpu_gib, "NVMe": judged.nvme_gib}
    parts = [
        f"unlimited {tier}" if gib is None else f"{format_value(gib * GIB, 'bytes')} of {tier}"
        for tier, gib in sizes.items()
        if gib != 0
    ]
    missed = f", misses the {' and the '.join(judged.missed)}" if judged.missed else ""
    return f"{' and '.join(parts) or 'no memory'} ({_hits(judged)} hit{missed})"


def _hits(judged: Judged) -> str:
    return format_value(judged.hit_rate, "share")
