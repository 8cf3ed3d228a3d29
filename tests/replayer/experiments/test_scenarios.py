"""The nine scenarios: six of them do the same requests on every combination of tiers."""

import json
from pathlib import Path

import polars as pl
import pytest

from replayer.experiments.sweep import find_sweep, load_sweep
from replayer.schema import parts
from tests.support.command_line import Run, sentence

TIERS = {
    "scenarios": ("cpu-only", "storage-only", "cpu+storage"),
    "scenarios-gpu": ("gpu-only", "gpu+cpu", "gpu+cpu+storage"),
}
OTHERS = ("storage-saturation", "realistic-production", "autoscaling")
SMALL = [word for flag in ("model=tiny-1b", "cycles=1", "users=8", "gpu_device=cpu") for word in ("--flag", flag)]


def test_a_name_that_no_scenario_has_is_refused(run: Run, tmp_path: Path) -> None:
    tables = [case.table for sweep in TIERS for case in load_sweep(find_sweep(sweep)).cases]
    assert list(dict.fromkeys(tables)) == [*TIERS["scenarios"], *OTHERS, *TIERS["scenarios-gpu"]]
    words = ["replayer", "sweep", "scenarios", "-o", tmp_path / "suite", "--dry-run"]
    sentence(run(*words, "--case", "cpu-onyl", ok=False), "--case: cpu-onyl is unknown; did you mean cpu-only?")
    assert not (tmp_path / "suite").exists()


@pytest.mark.usefixtures("series_here")
def test_the_tiers_do_the_same_requests_and_are_ranked(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")  # its device `cpu` stands for a GPU
    runs = {}
    for sweep, names in TIERS.items():
        cases = [word for name in names for word in ("--case", name)]
        place = ("--cache-dir", tmp_path / "cache", "-o", tmp_path / sweep)
        done = run("replayer", "sweep", sweep, *cases, *SMALL, "--trials", 1, *place, "--json")
        assert [case["case"] for case in json.loads(done.stdout)["cases"]] == list(names)
        runs |= {name: tmp_path / sweep / name for name in names}
    logs = {}
    for name, run_of in runs.items():
        info = json.loads((run_of / "trial_1" / "run.json").read_text())
        used = {tier for tier, size in info["conditions"]["usable_bytes"].items() if size != 0}
        assert used == set(name.replace("storage", "nvme").removesuffix("-only").split("+"))
        logs[name] = pl.read_parquet(parts(run_of / "trial_1"))
        assert logs[name].filter(pl.col("move") == "miss").is_empty(), "all fits"
    for log in logs.values():
        both = find_asked(log).join(find_asked(logs["storage-only"]), on="position")
        assert both.height > 100
        assert (both["key"] == both["key_right"]).all(), "the same object at each place of the order"
    first, *others = (runs[name] for name in TIERS["scenarios"])
    against = [word for one in others for word in ("--against", one)]
    compared = run("analysis", "compare", first, *against, "--vary", "usable_bytes").stdout
    assert all(f"{name} " in compared for name in TIERS["scenarios"])


def find_asked(log: pl.DataFrame) -> pl.DataFrame:
    """The move that each op asked for, without what it evicted."""
    return log.filter(pl.col("move").cast(pl.String).is_in(["hit", "store"])).unique("position")
