"""Crafted runs to compare: a run.json and metrics for each."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.cli import main
from analysis.comparison import trials
from analysis.doubts.doubt import Doubt
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tests.support.predicted_runs import PROFILE, predict
from tests.support.summaries import FAILED, summary_of

GIB = 2**30


def resampled_means(values: list[float]) -> list[float]:
    return [sum(pick) / len(values) for pick in itertools.product(values, repeat=len(values))]


SPEED = {"wall_clock_tok_s": 100.0, "storage_tok_s": 50.0, "decode_read_gib_s": 2.0, "elapsed_s": 10.0}
Craft = Callable[..., Path]


def conditions(**changes: Any) -> dict[str, Any]:
    return {
        "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 0, "nvme": None}, "workers": 8, "users": 4,
        "pace": "asap", "direct": True, "verify": "stamps",
    } | changes  # fmt: skip


def three(craft: Craft, name: str, speeds: tuple[float, ...] = (0.98, 1.0, 1.03), **info: Any) -> list[Path]:
    return [craft(f"{name}-{i}", speed, **info) for i, speed in enumerate(speeds)]


CPU = {"usable_bytes": {"gpu": 0, "cpu": 4 * GIB, "nvme": None}}


def typed(*command: object) -> Any:
    return CliRunner().invoke(main, ["compare", *map(str, command)])


SHORT = Doubt("short run", "2 s are too short", "replay minutes")


@pytest.fixture
def craft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Craft:
    """Return a function that makes run directories with given metrics; N ops generate N tokens."""

    def make(name: str, speed: float = 1.0, *, values: dict[str, Any] | None = None, **info: Any) -> Path:
        path = tmp_path / name
        path.mkdir(parents=True)
        metrics = {
            m: v / speed if m.endswith(("_s", "_ms")) and not m.endswith(("tok_s", "gib_s")) else v * speed
            for m, v in SPEED.items()
        }
        ops = info.pop("ops", 1000)
        plan: dict[str, Any] = {"plan_fingerprint": info.pop("plan", "p"), "plan_checkpoints": info.pop("marks", [])}
        plan |= dict.fromkeys("ops misses promotions drops bypasses recomputed_tokens".split(), 0)
        plan |= {name: dict.fromkeys(TIERS, 0) for name in ("hits", "stores", "read_bytes", "write_bytes")}
        plan |= {"demotions": {"gpu>cpu": 0, "gpu>nvme": 0, "cpu>nvme": 0}}
        content = {
            "run_version": 1, "status": "complete", "reason": None, "warnings": [], "trace": {"fingerprint": info.pop("trace", "t")},
            "plan": plan, "conditions": conditions(**info.pop("conditions", {})),
            "executed_ops": ops, "executed_fingerprint": f"{plan['plan_fingerprint']} {ops}",
            "valid": True, "metrics": metrics | (values or {}),
        } | info  # fmt: skip
        if "prediction" in content:
            content |= {
                "run_version": 3,
                "intervals": content.get("intervals", {}),
                "prediction": PROFILE | content["prediction"],
            }
        (path / "run.json").write_text(json.dumps(content))
        return path

    def crafted(path: Path) -> Summary:
        info = json.loads((path / "run.json").read_text())
        prediction = info.get("prediction")
        return summary_of(
            run=str(path),
            prediction=prediction and predict(info["intervals"], **prediction),
            doubts=[SHORT] if info["valid"] else [FAILED, SHORT],
            conditions=info["conditions"],
            zero_ns=info.get("zero_ns", [None]),
            executed_ops=info["executed_ops"],
            is_cut=(info.get("window") or {}).get("cut_s") is not None,
            **{"tokens_generated": info["executed_ops"]} | info["metrics"],
        )

    monkeypatch.setattr(trials, "summarise", crafted)
    return make
