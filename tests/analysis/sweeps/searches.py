"""Records of searches made by hand, with values that only these tests choose."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def make_step(users: int, value: float | None, **changes: Any) -> dict[str, Any]:
    """Return a step of two trials whose interval is a tenth of the value to each side."""
    interval = None if value is None else [0.9 * value, 1.1 * value]
    step: dict[str, Any] = {
        "users": users,
        "trials": 2,
        "value": value,
        "interval": interval,
        "n": 120,
        "evidence": True,
    }
    step |= {"throughput_gib_s": users / 10, "p95_ms": 2.5 * users, "p95_n": 400, "decision": "up", "saturation": 0.5}
    return step | {"runs": [f"scale/users_{users}/trial_1"]} | changes


def write_search(path: Path, steps: Sequence[dict[str, Any]], users: int | None, **changes: Any) -> Path:
    """Write an autoscale.json for the P95 of the wait for storage, at most 100 ms."""
    doubts = changes.pop("doubts", [])
    content = {
        "mode": "qos",
        "metric": "ttfb_p95_ms",
        "least_samples": 100,
        "target": 100.0,
        "target_is": "at_most",
        "target_saturation": None,
        "trace": {"path": "traces/chat.parquet", "fingerprint": "f" * 64},
        "flags": ["--pace", "closed"],
        "duration_s": 30.0,
        "prediction": None,
        "autoscaling_stats": list(steps),
        "result": {"users": users, "sure": not doubts, "peak": None, "doubts": doubts},
        "warnings": [],
    }
    path.write_text(json.dumps(content | changes))
    return path
