"""`replayer simulate` as a user types it: cells equal `replayer plan`, the table, the file, and what is refused."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from replayer.questions.cells import CellPlanner, make_grid
from replayer.schema import SIMULATION_COLUMNS, read_simulation
from tests.support.command_line import here
from tracegen.errors import InputError
from tracegen.schema import Trace

MODEL = ("--model", "llama3.1-8b")
TIERS = ("gpu", "cpu", "nvme")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few thousand ops with reuse, of four users."""
    path = tmp_path_factory.mktemp("trace") / "chat.parquet"
    assert here("tracegen", "generate", "chat", "--users", "4", "--requests", "300", "-o", path).returncode == 0
    return path


def found(*arguments: object) -> Any:
    done = here("replayer", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments: object) -> str:
    done = here("replayer", "simulate", *arguments)
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize("order", ["trace", "reference"])
def test_cells_equal_plan(trace: Path, order: str) -> None:
    """Every count that both have, at each combination of two axes and under each kind of rules."""
    shared = (trace, *MODEL, "--gpu-mem-gb", "0.2", "--order", order)
    cpus, nvmes, rules = ("0", "0.3"), ("0.5", "unlimited"), ("waterfall", "lmcache")
    grid = found(
        "simulate", *shared, "--cpu-mem-gb", ",".join(cpus), "--storage-capacity-gb", ",".join(nvmes),
        "--arrangement", ",".join(rules), "--policy", "lru,s3fifo",
    )["cells"]  # fmt: skip
    combinations = list(itertools.product(cpus, nvmes, rules, ("lru", "s3fifo")))
    assert len(grid) == len(combinations)
    for cell, (cpu, nvme, name, policy) in zip(grid, combinations, strict=True):
        settings = ("--cpu-mem-gb", cpu, "--storage-capacity-gb", nvme, "--arrangement", name, "--policy", policy)
        check_equal(cell, found("plan", *shared, *settings))


def check_equal(cell: dict[str, Any], plan: dict[str, Any]) -> None:
    for name in ("ops", "reads", "misses", "promotions", "bypasses", "recomputed_tokens"):
        assert cell[name] == plan[name], name
    assert sum(cell[f"drops_{tier}"] + cell[f"free_drops_{tier}"] for tier in TIERS) == plan["drops"]
    for tier in TIERS:
        for name in ("hits", "stores", "read_bytes", "write_bytes", "peak_bytes"):
            assert cell[f"{name}_{tier}"] == plan[name][tier], f"{name} of {tier}"


def test_threads_change_no_count(trace: Path) -> None:
    opened = Trace(trace)
    axes = {"model": ("llama3.1-8b", "qwen3-32b"), "cpu_mem_gb": (0.2, 0.5), "chunk_tokens": (0, 256)}
    cells = make_grid(opened, axes, {"storage_capacity_gb": 1, "order": "trace"})
    alone = CellPlanner(opened, cells, 1).plan_all()
    progress: list[int] = []
    together = CellPlanner(opened, cells, 4)
    rows = together.plan_all(progress.append)
    assert rows == alone
    assert sum(progress) == together.total_ops == (len(cells) + 1) * int(alone[0]["ops"] or 0)
    assert len({row["peak_bytes_nvme"] for row in rows}) > 1
    assert len({id(one._op) for one in together._workloads.values()}) == 1, "cells share one trace in memory"


def test_the_file_has_all_columns_and_says_where_it_comes_from(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "grid.parquet"
    arguments = (trace, *MODEL, "--cpu-mem-gb", "0.1,1", "--storage-capacity-gb", "0", "--arrangement", "vllm,lmcache")
    done = here("replayer", "simulate", *arguments, "-o", output)
    assert done.returncode == 0, done.stderr
    table, info = read_simulation(output)
    assert table.column_names == [column.name for column in SIMULATION_COLUMNS]
    assert table.schema.field("hit_rate_tokens").metadata[b"text"] == b"spared_tokens \xc3\xb7 prompt_tokens"
    assert info.axes == ("cpu_mem_gb", "arrangement")  # the chunks follow from the engine
    assert info.trace_fingerprint == Trace(trace).metadata.fingerprint
    assert table.column("arrangement").to_pylist() == ["vllm", "lmcache"] * 2
    assert table.column("drive_writes_per_day").null_count == 4  # there is no drive
    again = here("replayer", "simulate", *arguments, "-o", output)
    assert again.returncode == 2
    assert again.stderr == f"Error: -o {output}: exists already; choose another name, or pass --force to replace it.\n"
    assert here("replayer", "simulate", *arguments, "-o", output, "--force").returncode == 0


def test_the_table_marks_the_best_and_is_cut(trace: Path) -> None:
    arguments = (trace, *MODEL, "--cpu-mem-gb", "0.1,0.2,4", "--storage-capacity-gb", "0.1,1", "--policy", "lru,arc")
    lines = here("replayer", "simulate", *arguments, "--order", "trace").stdout.splitlines()
    assert lines[0] == f"{trace}: 12 cells of 1,940 ops each", "2,944 without the decode reads"
    rows = [line.split() for line in lines if "%" in line and line.startswith("  ")]
    assert len(rows) == 12
    assert {row[1] for row in rows if row[0] == "*"} == {"4"}, "the most memory hits most"
    cut = here("replayer", "simulate", *arguments, "--order", "trace", "--rows", "2", "--sort", "hit_rate").stdout
    assert "  10 more cells" in cut.splitlines()
    shown = [line.split() for line in cut.splitlines() if "%" in line and line.startswith("  ")]
    assert (len(shown), shown[0][:2]) == (2, ["*", "4"])


def test_what_cannot_be_planned_is_refused_before_any_work(trace: Path, tmp_path: Path) -> None:
    tiers = ("--cpu-mem-gb", "0,1", "--storage-capacity-gb", "0,1")
    one = ("--cpu-mem-gb", "1")
    assert "in the cell with --cpu-mem-gb 0, --storage-capacity-gb 0;" in refused(trace, *MODEL, *tiers)
    assert "s3fifo" in refused(trace, *MODEL, *one, "--policy", "lru,s3-fifo")
    assert "nosuch" in refused(trace, *MODEL, "--arrangement", "nosuch")
    assert "--sort hits_dram: " in refused(trace, *MODEL, *one, "--sort", "hits_dram")
    before = trace.read_bytes()
    for output in (tmp_path, tmp_path / "none" / "grid.parquet", trace):
        assert f"-o {output}: " in refused(trace, *MODEL, "-o", output, "--force")
    assert trace.read_bytes() == before


def test_another_file_is_no_simulation(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a table"):
        read_simulation(trace)
    with pytest.raises(InputError, match="no such file"):
        read_simulation(tmp_path / "none.parquet")
