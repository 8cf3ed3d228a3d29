"""A run in numbers, and whether the numbers may be believed."""

import math
from pathlib import Path
from typing import Any, Final

import polars as pl

from analysis.log import scan
from analysis.metrics import METRICS
from replayer.schema import TIERS, read_run
from tracegen.schema import InputError

SAME_WORK: Final = ("trace_fingerprint", "plan_fingerprint", "executed_ops")


def summarise(run: Path) -> dict[str, Any]:
    """Every metric of a run under its flat name, with `valid` and the `findings` against it.

    Raises:
        InputError: the run directory is missing, damaged or without a log.
    """
    info = read_run(run)
    try:
        frames = pl.collect_all([metric(scan(run)) for metric in METRICS.values()])
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{run}: its log cannot be read ({reason}); copy the run anew.") from None
    values = {name: _finite(value) for frame in frames for name, value in frame.row(0, named=True).items()}
    findings = _findings(info, values)
    return {
        "run": str(run),
        "valid": not findings,
        "findings": findings,
        "warnings": info["warnings"],
        "status": info["status"],
        "executed_ops": info.get("executed_ops"),
        "trace_fingerprint": info["trace"]["fingerprint"],
        "plan_fingerprint": info.get("executed_fingerprint"),
        "conditions": info["conditions"],
        **values,
    }


def _finite(value: Any) -> Any:
    """JSON knows no infinity: what a run of no duration divides by zero is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _findings(info: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Why the numbers of a run may not be believed; empty where they may."""
    findings = []
    if info["status"] != "complete":
        findings.append(
            f"the run is {'incomplete' if info['status'] == 'running' else info['status']}: {info['reason']}"
        )
    if failed := values["failed_moves"]:
        findings.append(f"{failed:,} moves failed and {values['upstream_moves']:,} more could not be made after them")
    elif info["status"] == "complete":
        planned = {
            **{f"{tier}_hits": info["plan"]["hits"][tier] for tier in TIERS},
            **{f"{tier}_read_bytes": info["plan"]["read_bytes"][tier] for tier in TIERS},
            **{f"{tier}_write_bytes": info["plan"]["write_bytes"][tier] for tier in TIERS},
            **{name: info["plan"][name] for name in ("misses", "drops", "bypasses", "recomputed_tokens")},
            "logged_ops": info["plan"]["ops"],
            "stores": sum(info["plan"]["stores"].values()),
            "demotes": sum(info["plan"]["demotions"].values()),
            "promotes": info["plan"]["promotions"],
        }
        findings += [
            f"the log has {name} = {values[name]:,}, the plan {number:,}: parts are missing or altered"
            for name, number in planned.items()
            if values[name] != number
        ]
    return findings


def differences(summaries: list[dict[str, Any]]) -> list[str]:
    """The names under which runs did unlike work: fingerprints and every count; times may differ."""
    names = [*SAME_WORK, *(name for name, value in summaries[0].items() if isinstance(value, int))]
    return sorted({name for name in names for other in summaries[1:] if other[name] != summaries[0][name]} - {"valid"})
