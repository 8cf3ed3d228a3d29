"""Crafted runs to compare."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison import trials
from analysis.doubts.doubt import Doubt
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tests.analysis.comparison.crafting import SPEED, Craft, conditions
from tests.support.predicted_runs import PROFILE, predict
from tests.support.summaries import FAILED, summary_of

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
