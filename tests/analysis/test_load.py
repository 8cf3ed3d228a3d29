"""`analysis.load`: a run opened for use in Python."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import analysis
from replayer.schema import LOG_COLUMNS
from tests.support.crafted_runs import clean
from tests.support.submissions import OPTIONS, replayed, save
from tracegen.errors import InputError


def test_a_loaded_run_has_log_counters_info_and_summary(tmp_path: Path) -> None:
    run = analysis.load(clean().save(tmp_path / "run"))
    moves = run.moves.collect()
    assert moves.columns == list(LOG_COLUMNS)
    assert {"hit", "store"} <= set(moves["move"])
    assert run.device is not None
    assert run.device.select(pl.len()).collect().item() > 0
    assert [info.status for info in run.info] == ["complete"]
    summary = run.summary()
    assert summary.is_valid
    assert summary.metrics["failed_moves"] == 0


def test_the_rows_of_ranks_are_on_the_first_ranks_clock(tmp_path: Path) -> None:
    save(tmp_path / "run", [replayed(OPTIONS[0], 1, rank, ranks=2) for rank in range(2)])
    alone = pl.read_parquet(tmp_path / "run" / "rank_1" / "moves" / "*.parquet")
    for rank in range(2):
        path = tmp_path / "run" / f"rank_{rank}" / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"clock": {"zero_ns": 10**18 + rank * 7_000}}))
    run = analysis.load(tmp_path / "run")
    assert run.device is not None
    shifted = run.moves.filter(pl.col("rank") == 1).collect()
    assert sorted(shifted["end_ns"]) == sorted(alone["end_ns"] + 7_000)
    sampled = pl.read_parquet(tmp_path / "run" / "rank_1" / "device.parquet")
    assert list(run.device.filter(pl.col("rank") == 1).collect()["time_ns"]) == list(sampled["time_ns"] + 7_000)


def test_a_run_without_counters_has_no_device(tmp_path: Path) -> None:
    path = clean().save(tmp_path / "run")
    (path / "device.parquet").unlink()
    assert analysis.load(path).device is None


def test_loading_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        analysis.load(tmp_path)


def test_importing_analysis_loads_no_large_packages() -> None:
    code = "import sys, analysis; print({'polars', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
