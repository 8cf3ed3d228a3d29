"""The metrics and tables of the shipped run against golden answers."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.log.targets import Targets
from analysis.summary import summary
from analysis.summary.distributions import TABLES
from tests.analysis import metric_oracle
from tests.analysis.metric_oracle import GOLDEN_TARGETS
from tests.analysis.metrics.comparing import ABOUT, assert_same, assert_same_table, open_log_of

GOLDEN = metric_oracle.DATA / "golden"
AGAIN = "; where the definition was meant to change: python -m tests.analysis.metric_oracle"


def test_the_golden_metrics_of_the_shipped_run() -> None:
    found = summary.summarise(metric_oracle.DATA / "run", targets=Targets(**GOLDEN_TARGETS)).to_json()
    golden = {
        row["name"]: row["text"] if row["number"] is None else row["number"]
        for row in pq.read_table(GOLDEN / "metrics.parquet").to_pylist()
    }
    assert set(found) - ABOUT == set(golden), f"other names{AGAIN}"
    assert_same(found, golden)


@pytest.mark.parametrize("name", TABLES)
def test_the_golden_tables_of_the_shipped_run(name: str) -> None:
    assert_same_table(
        TABLES[name](open_log_of(metric_oracle.DATA / "run")), pq.read_table(GOLDEN / f"{name}.parquet").to_pylist()
    )


def test_golden_answers_come_from_the_oracle_not_from_analysis() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {"metrics", *TABLES}
    for path in Path(metric_oracle.__file__).parent.glob("*.py"):
        assert not re.search(r"^(import|from) analysis", path.read_text(), re.M)


def test_the_shipped_run_is_small_and_has_every_kind_of_row() -> None:
    files = [path for place in (metric_oracle.DATA / "run", GOLDEN) for path in place.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 160_000
    found = summary.summarise(metric_oracle.DATA / "run").to_json()
    assert found["valid"], found["findings"]
    assert all(found[name] for name in ("hits", "misses", "demotes", "promotes", "drops", "bypasses"))
    assert found["device_utilisation"] is not None
