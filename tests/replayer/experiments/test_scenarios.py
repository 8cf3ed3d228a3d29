"""The nine scenarios, a sweep whose sizes are shares of free room and multiples of a trace."""

import json
from pathlib import Path

import polars as pl
import pytest

from replayer.experiments import sweep as sweeps
from replayer.experiments.series import ReplayMeans
from replayer.experiments.sizes import Room, find_obstacle, is_expression, measure_held_bytes, size_tiers
from replayer.experiments.sweep import find_sweep, load_sweep
from replayer.schema import parts
from tests.replayer.experiments.closed_loop import BYTES, TOKENS
from tests.support import traces
from tests.support.command_line import Run, sentence

GIB = 1 << 30
TIERS = ("gpu-only", "cpu-only", "storage-only", "gpu+cpu", "cpu+storage", "gpu+cpu+storage")
ROOM = Room({"gpu": 4 * GIB, "cpu": 8 * GIB, "nvme": 100 * GIB}, {})
NO_GPU = Room(ROOM.free, {"gpu": "no GPU"})
SMALL = [word for flag in ("model=tiny-1b", "cycles=1", "users=8") for word in ("--flag", flag)]


def test_sizes_are_shares_of_free_room_and_multiples_of_what_the_trace_holds_at_once(tmp_path: Path) -> None:
    """Two objects of as many tokens, one of which is read again."""
    steps = [("w", 0, TOKENS), ("w", 1, TOKENS), ("r", 0, TOKENS)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps)).path
    flags = ("--model", "tiny-1b")
    assert measure_held_bytes(trace, flags) == 2 * BYTES
    words = size_tiers({"cpu_mem_gb": "25%", "storage_capacity_gb": "1.5x"}, ROOM, trace, flags)
    assert words == ["--cpu-mem-gb", "2.000", "--storage-capacity-gb", f"{3 * BYTES / GIB:.3f}"]
    assert list(map(is_expression, ("1.3x", "50%", "4", 4, "x", "-1x", "5 %"))) == [True, True, *[False] * 5]


def test_a_case_whose_tier_is_absent_is_left_out_with_the_reason(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_drive = Room(ROOM.free, {"nvme": "no cache directory is named"})
    monkeypatch.setattr(sweeps, "find_room", lambda *_: no_drive)
    assert find_obstacle({"gpu_mem_gb": "1x"}, NO_GPU) == "no gpu tier: no GPU"
    assert find_obstacle({"cpu_mem_gb": "1x"}, NO_GPU) is None
    sweep = load_sweep(find_sweep("scenarios"))
    assert list(dict.fromkeys(case.table for case in sweep.cases)) == [
        *TIERS,
        "storage-saturation",
        "realistic-production",
        "autoscaling",
    ]
    possible, left_out = sweep.split(NO_GPU)
    assert set(left_out) == {"gpu-only", "gpu+cpu", "gpu+cpu+storage"}
    assert len(possible.cases) == 3 + 2 + 3
    words = ["replayer", "sweep", "scenarios", "-o", tmp_path / "suite", "--dry-run"]
    printed = run(*words).stdout
    assert "left out: no nvme tier: no cache directory is named" in printed
    sentence(run(*words, "--case", "storage-only", ok=False), "storage-only: cannot run here: no nvme tier")
    sentence(run(*words, "--case", "cpu-onyl", ok=False), "--case: cpu-onyl is unknown; did you mean cpu-only?")
    assert not (tmp_path / "suite").exists()


@pytest.mark.usefixtures("series_here")
def test_the_tiers_do_the_same_requests_and_are_ranked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")  # its device `cpu` stands for a GPU
    monkeypatch.setattr(sweeps, "find_room", lambda *_: ROOM)
    suite = tmp_path / "suite"
    cases = [word for name in TIERS for word in ("--case", name)]
    place = ("--cache-dir", tmp_path / "cache", "-o", suite)
    done = run(
        "replayer", "sweep", "scenarios", *cases, *SMALL, "--flag", "gpu_device=cpu", "--trials", 1, *place, "--json"
    )
    assert [case["case"] for case in json.loads(done.stdout)["cases"]] == list(TIERS)
    assert json.loads((suite / "series.json").read_text())["room"]["free"] == ROOM.free, "kept for a continuation"
    logs = {}
    for name in TIERS:
        info = json.loads((suite / name / "trial_1" / "run.json").read_text())
        used = {tier for tier, size in info["conditions"]["usable_bytes"].items() if size != 0}
        assert used == set(name.replace("storage", "nvme").removesuffix("-only").split("+"))
        logs[name] = pl.read_parquet(parts(suite / name / "trial_1"))
        assert logs[name].filter(pl.col("move") == "miss").is_empty(), "all fits"
    for name in TIERS:
        both = find_asked(logs[name]).join(find_asked(logs["storage-only"]), on="position")
        assert both.height > 100
        assert (both["key"] == both["key_right"]).all(), "the same object at each place of the order"
    others = [word for name in TIERS[1:] for word in ("--against", suite / name)]
    compared = run("analysis", "compare", suite / TIERS[0], *others, "--vary", "usable_bytes").stdout
    assert all(f"{name} " in compared for name in TIERS)


def find_asked(log: pl.DataFrame) -> pl.DataFrame:
    """The move that each op asked for, without what it evicted."""
    return log.filter(pl.col("move").cast(pl.String).is_in(["hit", "store"])).unique("position")


def test_a_sweep_that_is_continued_keeps_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = load_sweep(find_sweep("scenarios"), tables=["storage-saturation"])
    monkeypatch.setattr(sweeps, "find_room", lambda *_: ROOM)
    assert sweep.choose_room(tmp_path, ReplayMeans()) == ROOM
    (tmp_path / "series.json").write_text(json.dumps({"room": {"free": {"nvme": 7}, "absent": {}}}))
    assert sweep.choose_room(tmp_path, ReplayMeans()) == Room({"nvme": 7}, {})
