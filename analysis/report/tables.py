"""The tables of a report: headline figures, every other metric, machine and settings, what they mean."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from analysis.comparison.intervals import summarise_metric
from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import REPORT
from analysis.report.data import Gathered
from analysis.report.systems import Subject
from analysis.summary.run_summary import is_thin, note
from replayer.schema import TIERS, Machine, to_plain
from views.answer import Column, Table
from views.numbers import ABSENT, format_alike, format_number, get_unit_word

HEADLINES: Final = "Headline figures"
SETTINGS: Final = "Machine and settings"
MEANING: Final = "What these numbers mean"
_LEADING: Final = (
    "wall_clock_tok_s",
    *(f"{tier}_{direction}_gib_s" for tier in TIERS for direction in ("read", "write")),
    *("nvme_read_p95_ms", "nvme_write_p95_ms", "ttfb_p95_ms", "ttfb_p99_ms"),
    *("hit_rate_prompt_tokens", "hit_rate", "drive_writes_per_day", "nvme_break_even_tok_s", "bottleneck"),
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
    return [*_list_metrics(data), *_list_settings(data), _list_claims(data)]


def _list_metrics(data: Gathered) -> Iterator[Table]:
    """Yield headline figures, a column per system with the mean and the interval, and folded all others."""
    names = [*data.valid] if len(data.runs) > 1 else [data.runs[0].name]
    heads = [
        f"{name}, {len(own)} trials [95% interval]" if len(own) > 1 else name
        for name, own in zip(names, data.valid.values(), strict=True)
    ]
    summaries = data.summaries
    known = {
        name: any(summary.values.get(name) or name in summary.more_than for summary in summaries)
        for name in dict.fromkeys((*_LEADING, *REPORT, *CATALOGUE))
        if any(summary.values.get(name) is not None or name in summary.more_than for summary in summaries)
    }
    notes = note(known, [summary.metrics for summary in summaries])
    if data.comparison:
        notes = ["Each run over its own window; ratios are over equal work instead.", *notes]
    parts = {
        HEADLINES: [name for name in _LEADING if known.get(name)],
        "Every other metric": [name for name, is_told in known.items() if not (is_told and name in _LEADING)],
    }
    for title, metrics in parts.items():
        yield Table(
            name="headlines" if title == HEADLINES else "metrics",
            title=title,
            columns=[Column(head) for head in ("metric", "name", "unit", *heads)],
            rows=[
                [describe(name).label, name, get_unit_word(describe(name).unit), *_list_cells(data, name)]
                for name in metrics
            ],
            section=HEADLINES,
            notes=notes if title == HEADLINES else [],
            is_folded=title != HEADLINES,
        )


def _list_cells(data: Gathered, name: str) -> Iterator[str]:
    """Yield the mean of each system with its interval, in brackets if it rests on few samples."""
    if name == _WORD:
        for own in data.valid.values():
            yield ", ".join(dict.fromkeys(run.summary.bottleneck or ABSENT for run in own))
        return
    each = [summarise_metric(name, [run.summary for run in own]) for own in data.valid.values()]
    ends = ((one.mean if one.more_than is None else one.more_than, one.low, one.high) for one in each)
    texts = iter(format_alike(chain(*ends), describe(name).unit))
    for one, own in zip(each, data.valid.values(), strict=True):
        mean, low, high = next(texts), next(texts), next(texts)
        # One trial of few samples is enough to move the mean.
        is_few = any(is_thin(name, run.summary.metrics) for run in own)
        span = f" [{low} to {high}]" if one.low is not None and low != high else ""
        more = "> " if one.more_than is not None else ""
        yield f"{more}{f'({mean})' if is_few else mean}{span}"


def _list_settings(data: Gathered) -> Iterator[Table]:
    """Yield origins by run, and machines and settings by system; rows that differ are marked."""
    firsts = {system: own[0] for system, own in data.valid.items()}
    if len(data.runs) == 1:
        firsts = {data.runs[0].name: data.runs[0]}
    parts = {
        "Trace, plan and time": {run.name: _describe_origin(run) for run in data.runs},
        "Machine": {name: _describe_machine(run) for name, run in firsts.items()},
        "Settings": {name: flatten(to_plain(run.summary.provenance.conditions)) for name, run in firsts.items()},
    }
    for title, columns in parts.items():
        names = dict.fromkeys(name for column in columns.values() for name in column)
        rows = [
            [name.replace("_", " "), *(format_setting(name, own.get(name)) for own in columns.values())]
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
    return flatten(to_plain(run.run.infos[0].machine or Machine()))


def _describe_origin(run: Subject) -> dict[str, object]:
    infos, provenance = run.run.infos, run.summary.provenance
    trace = infos[0].trace
    return {
        "run": run.summary.run,
        "status": provenance.status,
        "started": infos[0].started,
        "ranks with a log": len(infos),
        "ops executed": provenance.executed_ops,
        "trace": trace.path,
        "trace fingerprint": provenance.trace_fingerprint,
        "plan fingerprint": provenance.plan_fingerprint,
        "seed": (trace.recipe or {}).get("seed", trace.seed),
        "generator": trace.generator,
        "sources": [f"{source.name} ({source.licence})" for source in trace.sources or ()],
    }


def format_setting(name: str, value: object) -> str:
    """Format a setting's value; sizes in bytes and in GiB."""
    if value is None:
        return "unlimited" if name.startswith("usable_bytes") else ABSENT
    if name.endswith("_bytes") or name.startswith("usable_bytes"):
        return f"{value:,} ({value / GIB:.3g} GiB)" if isinstance(value, int) and value else "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else format_number(value)


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
