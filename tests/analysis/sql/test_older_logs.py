"""Logs of older and newer writers."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from click.testing import CliRunner

from analysis.cli import main
from analysis.summary.summary import summarise
from replayer.schema import LOG_COLUMNS
from tests.analysis.sql.asking import BY_MOVE, ask, refusal

# What the first writer of version 1 (commit 9789f03) did not write.
LATER = "rank executed window warmup precondition clock".split()
LATER_CONDITIONS = (
    "ranks users part cycles speedup duration_s max_concurrent_allocs prefill_tok_s precondition_gib io_depth throttle"
    " gds gpu_device gpu_read"
).split()


def test_runs_of_earlier_writers_are_still_read(copy: Path) -> None:
    info = json.loads((copy / "run.json").read_text())
    now = summarise(copy).to_json()
    info = {name: value for name, value in info.items() if name not in LATER}
    info["conditions"] = {name: value for name, value in info["conditions"].items() if name not in LATER_CONDITIONS}
    (copy / "run.json").write_text(json.dumps(info))
    (copy / "device.parquet").unlink()
    then = summarise(copy).to_json()
    assert then["valid"], then["findings"]
    for name in ("tokens_generated", "nvme_read_p95_ms", "hit_rate", "logged_ops", "wall_clock_tok_s"):
        assert then[name] == now[name], name
    assert "criteria met." in CliRunner().invoke(main, ["assess", str(copy)]).output
    assert ask(copy, BY_MOVE)
    assert CliRunner().invoke(main, ["summary", str(copy)]).exit_code == 0


def test_newer_logs_are_refused(copy: Path) -> None:
    info = json.loads((copy / "run.json").read_text()) | {"run_version": 4}
    (copy / "run.json").write_text(json.dumps(info))
    assert "is of run format 4, this release reads up to 3; upgrade it." in refusal(copy, "select 1")


def test_columns_of_newer_writers_are_ignored(copy: Path) -> None:
    for part in (copy / "moves").iterdir():
        table = pq.read_table(part)
        pq.write_table(table.append_column("later", [[1] * len(table)]), part)
    assert list(ask(copy, "select * from moves limit 1")[0]) == LOG_COLUMNS
    assert summarise(copy).is_valid
