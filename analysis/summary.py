"""A run in numbers, and whether the numbers may be believed."""

import hashlib
import math
from pathlib import Path
from typing import Any, Final

import polars as pl

from analysis.log import scan
from analysis.metrics import METRICS
from replayer.schema import TIERS, parts, ranks_of, read_run
from tracegen.schema import InputError

SAME_WORK: Final = ("trace_fingerprint", "plan_fingerprint", "executed_ops")


def summarise(run: Path) -> dict[str, Any]:
    """Every metric of a run under its flat name, with `valid` and the `findings` against it.

    The metrics are of all its ranks together, warm-up left out.

    Raises:
        InputError: the run directory is missing, damaged or without a log.
    """
    ranks, findings = _ranks(run)
    infos = list(ranks.values())
    try:
        shifts = zip(ranks.items(), _shifts(infos), strict=True)
        log = pl.concat([scan(place, info, shift_ns) for (place, info), shift_ns in shifts])
        values = _measure(log.filter(~pl.col("warmup")))
        logged = _measure(log) if any((info.get("warmup") or {}).get("ops") for info in infos) else values
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{run}: its log cannot be read ({reason}); copy the run anew.") from None
    findings += _findings(infos, logged)
    if not values["logged_ops"]:
        findings.append("every op that was executed is warm-up: nothing is left to measure")
    return {
        "run": str(run),
        "valid": not findings,
        "findings": findings,
        "warnings": list(dict.fromkeys(warning for info in infos for warning in info["warnings"])),
        "status": _status(infos, missing=len(infos) < (infos[0]["conditions"].get("ranks") or 1)),
        "executed_ops": infos[0].get("executed_ops")
        if len(infos) == 1
        else sum((info.get("executed") or {}).get("ops", 0) for info in infos),
        "trace_fingerprint": _together([info["trace"]["fingerprint"] for info in infos]),
        "plan_fingerprint": _together([info.get("executed_fingerprint") for info in infos]),
        "conditions": infos[0]["conditions"] | {"ranks": len(infos)},
        "drain_s": max((info.get("window") or {}).get("drain_s", 0.0) for info in infos),
        **values,
    }


def _ranks(run: Path) -> tuple[dict[Path, dict[str, Any]], list[str]]:
    """The run directories of a run, one per rank, and which are missing."""
    if (size := ranks_of(run)) is None:
        return {run: read_run(run)}, []
    ranks, findings = {}, []
    expected = [run / f"rank-{rank:04}" for rank in range(size)]
    for rank, place in enumerate(expected):
        try:
            info = read_run(place)
            parts(place)
        except InputError as error:
            findings.append(f"rank {rank} of {size} is missing: {error.message.removesuffix('.')}")
            continue
        ranks[place] = info
        if (info.get("rank"), info["conditions"].get("ranks", size)) != (rank, size):
            findings.append(f"{place.name} is not rank {rank} of {size}: it comes from another run")
    if surplus := sorted(place.name for place in run.glob("rank-*") if place.name not in {p.name for p in expected}):
        findings.append(f"{surplus[0]} is none of the {size} ranks of this run")
    if not ranks:
        raise InputError(f"{run}: none of its {size} ranks left a log; replay it anew.")
    return ranks, findings


def _shifts(infos: list[dict[str, Any]]) -> list[int]:
    """Where each log's time 0 lies on that of the first; 0 for a rank that died before it could say."""
    zeros = [(info.get("clock") or {}).get("zero_ns") for info in infos]
    first = next((zero for zero in zeros if zero is not None), 0)
    return [0 if zero is None else zero - first for zero in zeros]


def _status(infos: list[dict[str, Any]], *, missing: bool) -> str:
    """The first status that is not complete."""
    unlike = [info["status"] for info in infos if info["status"] != "complete"]
    return str(unlike[0]) if unlike else "failed" if missing else "complete"


def _measure(log: pl.LazyFrame) -> dict[str, Any]:
    frames = pl.collect_all([metric(log) for metric in METRICS.values()])
    return {name: _finite(value) for frame in frames for name, value in frame.row(0, named=True).items()}


def _together(fingerprints: list[str | None]) -> str | None:
    """One for all ranks: theirs if they are equal, else SHA-256 over them in order."""
    if len(set(fingerprints)) == 1:
        return fingerprints[0]
    return hashlib.sha256("".join(map(str, fingerprints)).encode()).hexdigest()


def _finite(value: Any) -> Any:
    """JSON knows no infinity: what a run of no duration divides by zero is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _findings(infos: list[dict[str, Any]], values: dict[str, Any]) -> list[str]:
    """Why the numbers of a run may not be believed; empty where they may.

    Args:
        infos: run.json of each rank.
        values: the metrics of all rows, warm-up included.
    """
    findings = []
    for info in infos:
        if info["status"] != "complete":
            status = "incomplete" if info["status"] == "running" else info["status"]
            whose = f"rank {info['rank']}" if len(infos) > 1 else "the run"
            findings.append(f"{whose} is {status}: {info['reason']}")
    if failed := values["failed_moves"]:
        findings.append(f"{failed:,} moves failed and {values['upstream_moves']:,} more could not be made after them")
    elif not findings:
        executed = [_counts(_executed(info)) for info in infos]
        expected = {name: sum(counts[name] for counts in executed) for name in executed[0]}
        findings += [
            f"the log has {name} = {values[name]:,}, the plan {number:,}: parts are missing or altered"
            for name, number in expected.items()
            if values[name] != number
        ]
    return findings


def _executed(info: dict[str, Any]) -> dict[str, Any]:
    """What was executed, as the plan counts it; the plan itself in logs that do not say."""
    executed: dict[str, Any] = info.get("executed") or info["plan"]
    return executed


def _counts(plan: dict[str, Any]) -> dict[str, int]:
    """What the log must count, from what the plan counts."""
    return {
        **{f"{tier}_hits": plan["hits"][tier] for tier in TIERS},
        **{f"{tier}_read_bytes": plan["read_bytes"][tier] for tier in TIERS},
        **{f"{tier}_write_bytes": plan["write_bytes"][tier] for tier in TIERS},
        **{name: plan[name] for name in ("misses", "drops", "bypasses", "recomputed_tokens")},
        "logged_ops": plan["ops"],
        "stores": sum(plan["stores"].values()),
        "demotes": sum(plan["demotions"].values()),
        "promotes": plan["promotions"],
    }


def differences(summaries: list[dict[str, Any]]) -> list[str]:
    """The names under which runs did unlike work: fingerprints and every count; times may differ."""
    names = [*SAME_WORK, *(name for name, value in summaries[0].items() if isinstance(value, int))]
    return sorted({name for name in names for other in summaries[1:] if other[name] != summaries[0][name]} - {"valid"})
