"""The answer of one plan: hits, bytes, footprint and wear."""

from typing import Any, Final

import msgspec

from replayer.arrangements.loading import describe_arrangement
from replayer.planning.counts import GIB, PlanSummary
from replayer.planning.plan import Plan, PlanOptions
from replayer.questions.evidence import PlanEvidence
from replayer.record.options import DECODE_WORDS, TIERS
from replayer.record.simulation import CellValue
from tracegen.errors import format_count
from views.answer import Answer, Cell, Column, Figure, Table

_TB: Final = 10**12
_TIER_COLUMNS: Final = {
    "hits": "hits",
    "stores": "stores",
    "read_bytes": "read GiB",
    "write_bytes": "written GiB",
    "peak_bytes": "peak GiB",
    "peak_read_gib_s": "busiest minute, read GiB/s",
    "peak_write_gib_s": "write GiB/s",
}


def answer_plan(evidence: PlanEvidence, summary: PlanSummary, model: str) -> Answer:
    """Return what a plan for a model does."""
    plan, cell = evidence.plan, evidence.cell
    options = plan.options
    content = msgspec.to_builtins(summary.to_info())
    del content["plan_checkpoints"]
    ways = content["demotions"] | {f"{way} copied": count for way, count in content.get("copies", {}).items()}
    counts = {name: content[name] for name in ("promotions", "drops", "bypasses")} | ways
    moves = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    rows = [
        [tier, *(_get_size(cell[f"{name}_{tier}"], name) for name in _TIER_COLUMNS)]
        for tier in TIERS  # fast to slow
    ]
    return Answer(
        title=f"Plan of {plan.trace.path}",
        sentence=f"{summary.ops:,} ops, {evidence.count('reads'):,} reads:"
        f" {format_count(evidence.count('hits'), 'hit')},"
        f" {format_count(summary.misses, 'miss', 'misses')},"
        f" {format_count(summary.recomputed_tokens, 'token')} recomputed.",
        subject=[
            f"{model}, {options.bytes_per_token.per_token:,} bytes per token;"
            f" arrangement {describe_arrangement(options.arrangement)}",
            f"{_describe_order(options)}; {describe_decode(plan)}",
            f"room: {_describe_room(options)}",
            f"plan fingerprint {summary.plan_fingerprint}",
        ],
        figures=[*list_hit_rates(evidence), *_list_serving(evidence), *_list_writes(evidence)],
        tables=[
            Table(
                title="Tiers",
                name="tiers",
                columns=[Column("tier"), *map(Column, _TIER_COLUMNS.values())],
                rows=rows,
                notes=[moves],
            )
        ],
        source="a plan, without I/O",
        data=_list_data(evidence) | content,
    )


def _list_data(evidence: PlanEvidence) -> dict[str, Any]:
    """Return all counts under the names of a simulation's columns, and what was planned."""
    plan = evidence.plan
    arrangement = plan.options.arrangement.to_record()
    usable = zip(TIERS, plan.options.usable(), strict=True)
    return evidence.cell | {
        "bytes_per_token": plan.options.bytes_per_token.per_token,
        **{f"{tier}_usable_bytes": size for tier, size in usable},
        "trace_fingerprint": plan.trace.metadata.fingerprint,
        "arrangement": arrangement.name,
        "rules": arrangement.rules,
        "decode": plan.options.selection.decode,
        "order": msgspec.to_builtins(plan.options.order.to_info()),
        **{figure.name: figure.value for figure in _list_serving(evidence)},
        "span_s": _get_span_s(evidence),
    }


def _list_serving(evidence: PlanEvidence) -> list[Figure]:
    """Return what the engine's scheduler did, if there is one."""
    serving, account = evidence.plan.serving, evidence.counts.account
    if serving is None:
        return []
    held = account.held_ns / (account.clock_ns * serving.gpu_blocks or 1)
    return [
        Figure(name="gpu_held", label="gpu blocks held by requests", value=held, unit="share"),
        Figure(name="preemptions", label="requests preempted", value=account.preemptions),
        Figure(name="engine_steps", label="steps of the engine", value=account.steps),
    ]


def _list_writes(evidence: PlanEvidence) -> list[Figure]:
    """Return what is written to nvme at the trace's own times."""
    return [
        Figure(
            name="write_bytes_per_day_nvme",
            label="written to nvme per day",
            value=evidence.rate("write_bytes_per_day_nvme"),
            unit="bytes",
            note=f"at the trace's own times, {_get_span_s(evidence):,.0f} s",
        ),
        Figure(
            name="drive_writes_per_day",
            label="drive writes per day",
            value=evidence.rate("drive_writes_per_day"),
            note="of this capacity",
        ),
    ]


def list_wear(evidence: PlanEvidence, drive_tb: float | None, tbw: float | None) -> list[Figure]:
    """Return what the plan wears of a drive: its writes per day, and how long it lasts.

    Args:
        evidence: the plan.
        drive_tb: size of the drive in TB of 10^12 bytes; None: unknown.
        tbw: TB that it bears to be written; None: unknown.
    """
    per_day = evidence.rate("write_bytes_per_day_nvme")
    figures = []
    if per_day and drive_tb:
        label = "drive writes per day of the drive"
        figures.append(Figure(name="rated_drive_writes_per_day", label=label, value=per_day / _TB / drive_tb))
    if per_day and tbw:
        label = "days that the drive bears this"
        figures.append(Figure(name="drive_days", label=label, value=tbw * _TB / per_day, better="higher"))
    return figures


def describe_decode(plan: Plan) -> str:
    """Say which decode reads are planned, and what share of the ops they are."""
    selection, workload = plan.options.selection, plan.workload
    words = DECODE_WORDS[selection.decode]
    if selection.decode == "reread":
        return f"{words}, {workload.decode_share():.0%} of the ops, which count in no hit rate"
    left_out = 1 - workload.ops / max(plan.trace.ops * selection.cycles, 1)
    is_known = selection.users is None and left_out > 0
    return f"{words}, {left_out:.0%} of the trace's ops" if is_known else words


def _describe_order(options: PlanOptions) -> str:
    """Describe the order of a plan, with the load it depends on."""
    order = options.order
    if order.kind not in ("reference", "engine"):
        return f"in the order of {order.name or 'the trace'}"
    workers = format_count(options.demand.workers, "worker")
    instead = f", not by the engine's scheduler: {order.instead}" if order.instead else ""
    return f"by {order.kind} {order.name}: pace {options.demand.pace.kind}, {workers}{instead}"


def _describe_room(options: PlanOptions) -> str:
    """Describe what each tier has, and how much of it the plan may fill."""
    rooms = zip(TIERS, options.capacity_gib, options.usable(), strict=True)
    parts = [
        f"{tier} unlimited"
        if usable is None or gib is None
        else f"{tier} {usable / GIB:,.4g} of {float(gib):,g} GiB usable"
        for tier, gib, usable in rooms
        if gib != 0
    ]
    return ", ".join(parts)


def list_hit_rates(evidence: PlanEvidence) -> list[Figure]:
    """Return the shares of prompt tokens, of reads and of requests that hit."""
    labels = {
        "hit_rate_tokens": "prompt tokens that hit",
        "hit_rate_ops": "prompts' reads that hit",
        "hit_rate_requests": "requests that hit",
    }
    return [
        Figure(name=name, label=label, value=evidence.rate(name), unit="share", better="higher")
        for name, label in labels.items()
    ]


def _get_size(value: CellValue, name: str) -> Cell:
    return value / GIB if name.endswith("_bytes") and isinstance(value, int) else value


def _get_span_s(evidence: PlanEvidence) -> float:
    assert evidence.counts.minutes is not None
    return evidence.counts.minutes.span_s
