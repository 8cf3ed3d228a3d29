"""The tables of a report: headline figures, machine and settings, every metric, what they mean."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from analysis.comparison.intervals import summarise_metric
from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import REPORT
from analysis.report.data import Gathered
from analysis.report.sides import Subject
from analysis.summary.percentiles import bracketed, is_thin, note
from replayer.schema import TIERS, Machine, to_plain
from views.answer import Column, Table
from views.numbers import format_alike, format_number, get_unit_word

HEADLINES: Final = "Headline figures"
SETTINGS: Final = "Machine and settings"
MEANING: Final = "What these numbers mean"
EVERY: Final = "Every metric"
_LEADING: Final = (
    "wall_clock_tok_s",
    *(f"{tier}_{direction}_gib_s" for tier in TIERS for direction in ("read", "write")),
    *("nvme_read_p95_ms", "nvme_write_p95_ms", "ttfb_p95_ms", "ttfb_p99_ms"),
    *("hit_rate_prompt_tokens", "hit_rate", "drive_writes_per_day", "nvme_break_even_tok_s"),
)
"""The metrics that a page shows unfolded."""
_WORD: Final = "bottleneck"
"""The one entry that is a word, not a number."""
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


def list_run_tables(data: Gathered) -> list[Table]:
    """Return the tables of a report, in their order."""
    return [
        *_list_headlines(data),
        *_list_settings(data),
        _list_claims(data),
        _tabulate_metrics(data),
    ]


def _list_headlines(data: Gathered) -> Iterator[Table]:
    """Yield a column per system with the mean and the interval, and every trial folded."""
    names = [*data.valid] if len(data.runs) > 1 else [data.runs[0].name]
    counts = [len(own) for own in data.valid.values()]
    heads = [
        f"{name}, {count} trials [95% interval]" if count > 1 else name
        for name, count in zip(names, counts, strict=True)
    ]
    columns = [Column(head) for head in ("metric", "name", "unit", *heads)]
    known = [
        name
        for name in REPORT
        if any(summary.values.get(name) or name in summary.more_than for summary in data.summaries)
    ]
    rows = {name: [*_name_metric(name), *_list_cells(data, name)] for name in known}
    notes = note(REPORT, [summary.metrics for summary in data.summaries])
    if data.comparison:
        notes = ["Each run over its own window; ratios are over equal work instead.", *notes]
    leading = [row for name, row in rows.items() if name in _LEADING]
    rest = [row for name, row in rows.items() if name not in _LEADING]
    yield Table(name="headlines", title=HEADLINES, columns=columns, rows=leading, notes=notes)
    more = f"{len(rest)} more figures"
    yield Table(title=more, columns=columns, rows=rest, section=HEADLINES, is_folded=True)


def _name_metric(name: str) -> list[str]:
    return [describe(name).label, name, get_unit_word(describe(name).unit)]


def unit_word(name: str) -> str:
    """Return the unit of an entry of a summary; empty for shares, ratios and words."""
    metric = CATALOGUE.get(name)
    return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit


def _list_cells(data: Gathered, name: str) -> Iterator[str]:
    """Yield the mean of each system with its interval, in brackets if it rests on few samples."""
    if name == _WORD:
        for own in data.valid.values():
            yield ", ".join(dict.fromkeys(str(run.summary.bottleneck or "–") for run in own))
        return
    each = [summarise_metric(name, [run.summary for run in own]) for own in data.valid.values()]
    means = [one.mean if one.more_than is None else one.more_than for one in each]
    ends = [(mean, one.low, one.high) for mean, one in zip(means, each, strict=True)]
    texts = iter(format_alike(chain(*ends), describe(name).unit))
    for one, own in zip(each, data.valid.values(), strict=True):
        mean, low, high = next(texts), next(texts), next(texts)
        is_few = any(is_thin(name, run.summary.metrics) for run in own)
        shown = f"({mean})" if is_few else mean
        span = f" [{low} to {high}]" if one.low is not None and low != high else ""
        yield f"{'> ' if one.more_than is not None else ''}{shown}{span}"


def _list_settings(data: Gathered) -> Iterator[Table]:
    """Yield origins by run, and machines and settings by system; what is equal is folded."""
    firsts = {system: own[0] for system, own in data.valid.items()}
    if len(data.runs) == 1:
        firsts = {data.runs[0].name: data.runs[0]}
    parts = {
        "Trace, plan and time": {run.name: _describe_origin(run) for run in data.runs},
        "Machine": {name: _describe_machine(run) for name, run in firsts.items()},
        "Settings": {name: flatten(to_plain(run.summary.provenance.conditions)) for name, run in firsts.items()},
    }
    for title, columns in parts.items():
        yield _tabulate_settings(title, columns, is_folded=len(data.runs) > 1)


def _tabulate_settings(
    title: str,
    columns: Mapping[str, Mapping[str, object]],
    *,
    is_folded: bool,
) -> Table:
    """Return a table with a column each, in which rows that differ are marked."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [
        [name.replace("_", " "), *(format_setting(name, own.get(name)) for own in columns.values())] for name in names
    ]
    return Table(
        title=title,
        columns=[Column(head) for head in ("", *columns)],
        rows=rows,
        section=SETTINGS,
        is_folded=is_folded,
        marked=frozenset(number for number, row in enumerate(rows) if len({*row[1:]}) > 1),
    )


def _describe_machine(run: Subject) -> dict[str, object]:
    """Describe the machine of a run's first rank; of a predicted run its profile."""
    if run.summary.prediction is not None:
        return {"profile": run.summary.describe_profile()}
    return flatten(to_plain(run.run.infos[0].machine or Machine()))


def _describe_origin(run: Subject) -> dict[str, object]:
    infos, provenance, metrics = run.run.infos, run.summary.provenance, run.summary.metrics
    trace = infos[0].trace
    executed = [rank.ops_executed for rank in infos]
    moved = [metrics[f"{tier}_{side}_bytes"] or 0 for tier in TIERS for side in ("read", "write")]
    return {
        "run": run.summary.run,
        "status": provenance.status,
        "started": infos[0].started,
        "ranks with a log": len(infos),
        "ops executed": None if None in executed else sum(filter(None, executed)),
        "trace": trace.path,
        "trace fingerprint": provenance.trace_fingerprint,
        "plan fingerprint": provenance.plan_fingerprint,
        "seed": (trace.recipe or {}).get("seed", trace.seed),
        "generator": trace.generator,
        "sources": [f"{source.name} ({source.licence})" for source in trace.sources or ()],
        "log, GiB moved": sum(moved) / GIB,
    }


def format_setting(name: str, value: object) -> str:
    """Format a setting's value; sizes in bytes and in GiB."""
    is_size = name.endswith("_bytes") or name.startswith("usable_bytes")
    if value is None:
        return "unlimited" if name.startswith("usable_bytes") else "–"
    if is_size and isinstance(value, int | float):
        return f"{value:,} ({value / GIB:.3g} GiB)" if value else "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return format_number(value)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Flatten nested tables; names are joined by dots, and empty tables left out."""
    flattened: dict[str, object] = {}
    for name, value in values.items():
        is_table = isinstance(value, dict)
        flattened |= flatten(value, f"{prefix}{name}.") if is_table else {prefix + name: value}
    return flattened


def _list_claims(data: Gathered) -> Table:
    """Return what a page claims about its numbers, and the targets."""
    is_predicted = any(summary.prediction is not None for summary in data.summaries)
    targets = data.targets
    listed = ", ".join(f"{name} {format_number(ms)} ms" for name, ms in targets.qos_ms.items())
    more = targets.qos_ms_per_gib
    extra = f", and {format_number(more)} ms more per GiB moved before it" if more else ""
    goal = f"Targets: {listed} to the first byte for 95% of a class's requests{extra}."
    notes = [*([_OF_PREDICTIONS] if is_predicted else []), *_CLAIMS, goal]
    return Table(title=MEANING, columns=(), rows=(), notes=notes)


def _tabulate_metrics(data: Gathered) -> Table:
    """Return the table of all metrics that any run has, with their definitions."""
    rows = [
        [
            name,
            unit_word(name),
            *(_format_metric(name, run) for run in data.runs),
            metric.definition,
        ]
        for name, metric in CATALOGUE.items()
        if any(summary.values.get(name) is not None for summary in data.summaries)
    ]
    names = [run.name for run in data.runs]
    columns = [Column(head) for head in ("metric", "unit", *names, "definition")]
    return Table(title=EVERY, columns=columns, rows=rows, is_folded=True, section=EVERY)


def _format_metric(name: str, run: Subject) -> str:
    summary = run.summary
    if name in summary.more_than:
        return f"> {_format_value(name, summary.more_than[name])}"
    return bracketed(name, summary.metrics, _format_value(name, summary.values.get(name)))


def _format_value(name: str, value: object) -> str:
    is_share = isinstance(value, float) and describe(name).is_share
    return f"{value:.1%}" if is_share else format_number(value)
