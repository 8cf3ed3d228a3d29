"""Crafted runs to compare: a run.json and metrics for each."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from analysis.cli import main
from analysis.comparison import ratios, trials
from analysis.comparison.answer import answer_comparison
from analysis.comparison.compare import Comparison, compare_systems
from analysis.comparison.matching import name_sets
from analysis.comparison.trials import load_sets
from analysis.comparison.work import Unit, Work
from analysis.runs.run import Doubt, Run
from analysis.summary.run_summary import MachineName, Summary
from replayer.schema import TIERS
from tests.support.predicted_runs import PROFILE, predict
from tests.support.summaries import FAILED, summary_of
from views.text import render_text

GIB = 2**30


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


def compare(
    systems: dict[str, list[Path]] | list[list[Path]], vary: list[str] | None = None, metrics: list[str] | None = None
) -> Comparison:
    """Compare as the command does; the last system is the baseline."""
    if not isinstance(systems, dict):
        systems = dict(zip(name_sets(systems), systems, strict=True))
    trials, _ = load_sets(systems)
    return compare_systems(trials, [*trials][-1], vary or [], metrics)


def compare_found(systems: dict[str, list[Path]], *, is_given: bool = False) -> Comparison:
    """Compare as a report does; the first system is the baseline."""
    trials = {system: load_sets({system: runs})[0][system] if runs else [] for system, runs in systems.items()}
    return compare_systems(trials, next(iter(trials)), is_any_load=is_given)


def render(comparison: Comparison) -> str:
    """Return what the command prints."""
    return render_text(answer_comparison(comparison, {})).rstrip()


def make_work(
    starts_s: Sequence[float],
    lengths_s: Sequence[float] | float,
    sizes: Sequence[float] | float = 2.0**20,
    *,
    cut_s: float | None = None,
    begin_s: float = 0.0,
    **columns: object,
) -> Work:
    """Make the work of a run: reads of a drive, one key each, unless `columns` say otherwise."""
    start, length, size = (np.broadcast_to(each, len(starts_s)) for each in (starts_s, lengths_s, sizes))
    start_ns, length_ns = (start * 1e9).astype(np.int64), (length * 1e9).astype(np.int64)
    values: dict[str, object] = dict.fromkeys(("rank", "seq", "write_bytes", "write_ns"), 0)
    values |= dict.fromkeys(("position", "op_id", "key"), np.arange(len(start)))
    values |= {"start_ns": start_ns, "end_ns": start_ns + length_ns, "amount": size.astype(float), "tokens": 1.0}
    values |= {"missed": 0.0, "read_bytes": size.astype(np.int64), "read_ns": length_ns}
    frame = pl.DataFrame({name: np.broadcast_to(value, len(start)) for name, value in (values | columns).items()})
    end_ns = round(cut_s * 1e9) if cut_s is not None else int((start_ns + length_ns).max())
    return Work(frame, round(begin_s * 1e9), end_ns, is_cut=cut_s is not None)


def even_work(seconds: float, moves: int = 200, *, is_cut: bool = False) -> Work:
    """Make moves of equal work and length, one after the other without a pause."""
    step = seconds / moves
    return make_work(np.arange(moves) * step, step, cut_s=seconds if is_cut else None)


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
            "run_version": 2, "status": "complete", "reason": None, "warnings": [], "trace": {"fingerprint": info.pop("trace", "t")},
            "plan": plan, "conditions": conditions(**info.pop("conditions", {})),
            "executed_ops": ops, "executed_fingerprint": f"{plan['plan_fingerprint']} {ops}",
            "valid": True, "metrics": metrics | (values or {}),
        } | info  # fmt: skip
        if "prediction" in content:
            content |= {"run_version": 3, "prediction": PROFILE | content["prediction"]}
        (path / "run.json").write_text(json.dumps(content))
        return path

    def crafted(path: Path) -> Summary:
        info = json.loads((path / "run.json").read_text())
        prediction = info.get("prediction")
        machine = info.get("machine", {})
        drive = machine.get("storage", {})
        return summary_of(
            run=str(path),
            prediction=prediction and predict(**prediction),
            doubts=[SHORT] if info["valid"] else [FAILED, SHORT],
            conditions=info["conditions"],
            zero_ns=info.get("zero_ns", [None]),
            executed_ops=info["executed_ops"],
            machine=MachineName(machine.get("host"), machine.get("cpu"), machine.get("cores"), drive.get("device")),
            cut="by --duration" if (info.get("window") or {}).get("cut_s") is not None else None,
            **{"tokens_generated": info["executed_ops"]} | info["metrics"],
        )

    def worked(run: Run, unit: Unit) -> Work:
        return even_work(crafted(run.path).metrics["elapsed_s"] or 1.0)

    monkeypatch.setattr(trials, "summarise", crafted)
    monkeypatch.setattr(ratios, "read_work", worked)
    return make
