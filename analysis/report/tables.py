"""Lines and tables of what was tested: figures of all metrics, machine and settings, what they mean."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

from analysis.comparison.intervals import summarise_metric
from analysis.comparison.trials import describe_condition, name_condition, write_conditions
from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.report.systems import Gathered, Subject
from analysis.runs.plan_order import describe_order, describe_rules
from analysis.summary.distributions import HEADINGS
from analysis.summary.run_summary import Summary, is_thin, note
from replayer.schema import TIERS, Conditions, to_plain
from tracegen.errors import format_count
from views.answer import Column, Figure, Table
from views.numbers import ABSENT, format_alike, format_number, format_value, get_unit_word

HEADLINES: Final = "Headline figures"
OTHERS: Final = "Other distributions"
SETTINGS: Final = "Machine and settings"
MEANING: Final = "What these numbers mean"
# Distributions that have a table alone.
_DISTRIBUTIONS: Final = {
    "occupancy_over_time": "Contents of the tiers at the end of each interval",
    "latency": "Latency by tier, size and source",
    "device_over_time": "Counters of the kernel over time",
}
# The metrics that a page shows unfolded.
_LEADING: Final = (
    "wall_clock_tok_s",
    *(f"{tier}_{direction}_gib_s" for tier in TIERS for direction in ("read", "write")),
    *("nvme_read_p95_ms", "nvme_write_p95_ms", "ttfb_p95_ms", "ttfb_p99_ms"),
    *("hit_rate_prompt_tokens", "hit_rate", "drive_writes_per_day", "nvme_break_even_tok_s", "bottleneck"),
)
# The one entry that is a word, not a number.
_WORD: Final = "bottleneck"
_OF_PREDICTIONS: Final = (
    "Runs marked as predicted were not measured: their times were computed from a profile, which"
    " says how long a tier takes at a given load. Their lines are dashed."
)
_CLAIMS: Final = (
    "Placement was decided by the plan, not by the speed of this system, unless the settings say"
    " placement live. A live server on a slower device could have more or fewer hits.",
    "Hits and bytes depend on the workload and the capacities, times on the system.",
    "Waiting that the plan itself causes is logged separately, as plan wait. All bytes read were"
    " checked against the bytes written, unless the settings say verify off. A failed move is a row"
    " of the log and makes the run fail.",
    "Latencies are those of whole objects, with evictions and without waiting. Quantiles are exact"
    " and interpolated linearly. 1 GiB = 2^30 bytes.",
)


Facts = dict[str, str]
"""Facts of one run by name; empty texts are left out."""
# A fact that is told only if systems differ in it.
_USUAL: Final = "rules of waterfall"
# Most letters of what differs between three or more systems; longer facts are only named.
_SHORT: Final = 120


def list_tested(data: Gathered) -> list[str]:
    """Return a line of hardware, one of the workload, and one of what differs between systems."""
    lines, differing = [], []
    for describe_run in (_describe_hardware, _describe_workload):
        facts = {system: describe_run(own[0]) for system, own in data.valid.items()}
        shared: list[str] = []
        for name in dict.fromkeys(chain(*facts.values())):
            values = {own.get(name, "") for own in facts.values()}
            if len(values) == 1:
                shared += values - {"", _USUAL}
            else:
                differing.append(_compare(name, facts))
        lines.append("; ".join(shared))
    if differing:
        lines.append(f"Differs: {'; '.join(differing)}")
    return [line for line in lines if line]


def _compare(name: str, facts: dict[str, Facts]) -> str:
    """Return a fact of each system, as "6 GiB (old, spare), 8 GiB (new)"."""
    systems: dict[str, list[str]] = {}
    for system, own in facts.items():
        if own.get(name):
            systems.setdefault(own[name], []).append(system)
    listed = ", ".join(f"{value} ({', '.join(named)})" for value, named in systems.items())
    # Two systems are always told apart in full.
    has_room = len(facts) <= 2 or len(listed) <= _SHORT or name == "profile"
    return listed if has_room else name


def _describe_hardware(run: Subject) -> Facts:
    if run.summary.prediction is not None:
        return {"profile": f"PREDICTED, not measured, with {run.summary.describe_profile()}"}
    machine = run.run.infos[0].machine
    cores = format_count(machine.cores, "core") if machine.cores else ""
    memory = f"{machine.memory_bytes / GIB:,.0f} GiB of memory" if machine.memory_bytes else ""
    conditions = run.summary.conditions
    slowing = describe_condition("throttle", write_conditions(conditions)["throttle"])
    ranks = conditions.ranks or 1
    return {
        "drive": _describe_drive(run),
        "slowing": "" if slowing == "none" else f"slowed to {slowing}",
        "processor": ", ".join(filter(None, (machine.cpu or "unknown processor", cores))),
        "memory": memory,
        "hosts": f"{ranks} ranks" if ranks > 1 else "",
    }


def _describe_drive(run: Subject) -> str:
    """Describe the drive of the nvme tier, or what stands in for it."""
    conditions, storage = run.summary.conditions, run.summary.storage
    if conditions.usable_bytes.nvme == 0:
        return "no nvme tier"
    if storage is None or conditions.has_simulated_nvme:
        layout = f" (layout {conditions.layout})" if conditions.layout else ""
        return f"no drive, an emulated nvme tier{layout}"
    names = [storage.device_model or "drive of unknown model", storage.device, storage.filesystem]
    return ", ".join(filter(None, names))


def _describe_workload(run: Subject) -> Facts:
    summary = run.summary
    conditions = summary.conditions
    requests = summary.metrics["requests"]
    speedup = conditions.speedup
    is_plain = conditions.pace == "asap" or speedup in (None, 1)
    return {
        "model": conditions.model,
        "caches": _list_caches(conditions),
        "workload": _describe_trace(run),
        "cut": summary.cut or "",
        "requests": format_count(int(requests), "request") if requests else "",
        "users": format_count(summary.users, "user") if summary.users else "",
        "pace": f"pace {conditions.pace}" + ("" if is_plain else f" at {speedup:g} × speed"),
        "workers": format_count(conditions.workers, "worker"),
        "order": describe_order(conditions),
        "rules": f"rules of {describe_rules(conditions)}",
    }


def _list_caches(conditions: Conditions) -> str:
    """Return the sizes that the user asked for."""
    texts = write_conditions(conditions)
    sizes = {f"usable_bytes.{tier}": texts[f"usable_bytes.{tier}"] for tier in TIERS}
    return " + ".join(name_condition(name, text) for name, text in sizes.items() if text != "0")


def _describe_trace(run: Subject) -> str:
    """Name a trace by its sources, else by its file."""
    trace = run.run.infos[0].trace
    sources = [source.name for source in trace.sources or () if source.name]
    if sources:
        return ", ".join(sources)
    return Path(trace.path).name if trace.path else "unnamed trace"


def make_figure(name: str, label: str, summaries: Sequence[Summary], remark: str = "", missing: str = "") -> Figure:
    """Make the figure of a metric over trials.

    Args:
        name: the metric.
        label: its words.
        summaries: of the trials.
        remark: what qualifies the figure.
        missing: why there is none.
    """
    metric = describe(name)
    stats = summarise_metric(name, summaries)
    value = stats.mean if stats.more_than is None else stats.more_than
    if value is None or (value == 0 and not metric.is_share):  # a share of 0 is a measurement
        return Figure(name=name, label=label, value=None, note=missing)
    basis = format_count(len(summaries), "trial")
    if len(summaries) == 1:
        few = ", too few samples" if is_thin(name, summaries[0].metrics) else ""
        basis = f"{'predicted' if summaries[0].prediction else 'one run'}{few}"
    return Figure(
        name=name,
        label=label,
        value=value,
        unit=metric.unit,
        low=stats.low,
        high=stats.high,
        is_more_than=stats.more_than is not None,
        better=metric.better or "",
        note="; ".join(filter(None, (basis, remark))),
    )


def list_run_tables(data: Gathered) -> Iterator[Table]:
    """Yield the tables of a report, in their order."""
    yield from _list_metrics(data)
    yield from _list_settings(data)
    yield _list_claims(data)
    yield from _list_others(data)


def _list_metrics(data: Gathered) -> Iterator[Table]:
    """Yield headline figures, a column per system with the mean and the interval, and folded all others."""
    heads = [f"{name}, {len(own)} trials [95% interval]" if len(own) > 1 else name for name, own in data.valid.items()]
    summaries = data.summaries
    values = [*chain.from_iterable((one.values | one.more_than).items() for one in summaries)]
    known = {name for name, value in values if value is not None}
    told = {name for name, value in values if value}
    # A rate of 0 is that of a tier that the run does not have.
    leading = [name for name in _LEADING if name in told]
    others = [name for name in CATALOGUE if name in known - {*leading}]
    notes = note(known, [summary.metrics for summary in summaries])
    if data.comparison:
        notes = ["Each run over its own window; ratios are over equal work instead.", *notes]
    rows = {
        name: [describe(name).label, name, get_unit_word(describe(name).unit), *_list_cells(data, name)]
        for name in (*leading, *others)
    }
    table = partial(Table, columns=[Column(head) for head in ("metric", "name", "unit", *heads)], section=HEADLINES)
    yield table(name="headlines", title=HEADLINES, rows=[rows[name] for name in leading], notes=notes)
    yield table(name="metrics", title="Every other metric", rows=[rows[name] for name in others], is_folded=True)


def _list_cells(data: Gathered, name: str) -> Iterator[str]:
    """Yield the mean of each system with its interval, in brackets if it rests on few samples."""
    for own in data.valid.values():
        if name == _WORD:
            yield ", ".join(dict.fromkeys(run.summary.bottleneck or ABSENT for run in own))
            continue
        one = summarise_metric(name, [run.summary for run in own])
        more, value = ("", one.mean) if one.more_than is None else ("> ", one.more_than)
        mean, low, high = format_alike((value, one.low, one.high), describe(name).unit)
        # One trial of few samples is enough to move the mean.
        if any(is_thin(name, run.summary.metrics) for run in own):
            mean = f"({mean})"
        yield f"{more}{mean}" + (f" [{low} to {high}]" if one.low is not None and low != high else "")


def _list_settings(data: Gathered) -> Iterator[Table]:
    """Yield origins by run, and machines and settings by system; rows that differ are marked."""
    firsts = {system: own[0] for system, own in data.valid.items()}
    parts = {
        "Trace, plan and time": {run.name: _describe_origin(run) for run in data.runs},
        "Machine": {name: _describe_machine(run) for name, run in firsts.items()},
        "Settings": {name: _flatten(to_plain(run.summary.conditions)) for name, run in firsts.items()},
    }
    for title, columns in parts.items():
        names = dict.fromkeys(name for column in columns.values() for name in column)
        rows = [
            [name.replace("_", " "), *(_describe_setting(name, own.get(name)) for own in columns.values())]
            for name in names
        ]
        yield Table(
            title=title,
            columns=[Column(head) for head in ("", *columns)],
            rows=rows,
            section=SETTINGS,
            is_folded=len(data.runs) > 1,
            marked=frozenset(number for number, row in enumerate(rows) if len({*row[1:]}) > 1),
        )


def _describe_machine(run: Subject) -> dict[str, object]:
    """Describe the machine of a run's first rank; of a predicted run its profile."""
    if run.summary.prediction is not None:
        return {"profile": run.summary.describe_profile()}
    return _flatten(to_plain(run.run.infos[0].machine))


def _describe_origin(run: Subject) -> dict[str, object]:
    infos, summary = run.run.infos, run.summary
    # The first rank stands for all: their traces are parts of one.
    trace = infos[0].trace
    return {
        "run": summary.run,
        "status": summary.status,
        "started": infos[0].started,
        "ranks with a log": len(infos),
        "ops executed": summary.executed_ops,
        "trace": trace.path,
        "trace fingerprint": summary.trace_fingerprint,
        "plan fingerprint": summary.plan_fingerprint,
        "sources": [f"{source.name} ({source.licence})" for source in trace.sources or ()],
    }


def _describe_setting(name: str, value: object) -> str:
    """Describe a setting's value; sizes in bytes and in a unit that is short."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None and name.startswith("usable_bytes"):
        return "unlimited"
    size = f" ({format_value(value, 'bytes')})" if "bytes" in name and isinstance(value, int) and value >= 1024 else ""
    return format_number(value) + size


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Flatten nested tables; names are joined by dots, and empty tables left out."""
    flattened: dict[str, object] = {}
    for name, value in values.items():
        is_table = isinstance(value, dict)
        flattened |= _flatten(value, f"{prefix}{name}.") if is_table else {prefix + name: value}
    return flattened


def _list_claims(data: Gathered) -> Table:
    """Return what a page claims about its numbers, and the targets."""
    is_predicted = any(summary.prediction is not None for summary in data.summaries)
    targets = data.targets
    listed = ", ".join(f"{name} {format_number(ms)} ms" for name, ms in targets.qos_ms.items())
    goal = f"Targets: {listed} to the first byte for 95% of a class's requests."
    notes = [*([_OF_PREDICTIONS] if is_predicted else []), *_CLAIMS, goal]
    return Table(title=MEANING, columns=(), rows=(), notes=notes)


def _list_others(data: Gathered) -> Iterator[Table]:
    """Yield the distributions that have no chart, folded; those of one plan, which are equal, once."""
    for name, title in _DISTRIBUTIONS.items() if data.shown else ():
        rows = data.table(name)
        if data.is_equal(name):
            rows = rows.filter(pl.col("run") == next(iter(data.shown))).drop("run")
        columns = [Column(HEADINGS.get(head, head.replace("_", " "))) for head in rows.columns]
        yield Table(title=title, columns=columns, rows=rows.rows(), section=OTHERS, is_folded=True)
