"""What is exported is read back by readers that share nothing with the writers, and by the tools it is meant for."""

import json
import struct
import subprocess
import sys
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.model import TokenBytes
from replayer.plan import Plan, PlanOptions
from replayer.waterfall import HIT
from tests import traces
from tests.test_import import EXCERPT, imported
from tracegen.exchange import EXPORTS, export_trace
from tracegen.formats.export import ExportOptions
from tracegen.schema import InputError, Trace

STEPS = [("w", 0, 5), ("w", 1, 7), ("r", 0, 5), ("d", 1, 7), ("x", 0, 5), ("r", 1, 7), ("r", 1, 7)]
BYTES = ExportOptions(bytes_per_token=1000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    changes = {"time_ns": np.arange(7) * 1_500_000_000}
    return traces.write(tmp_path_factory.mktemp("small") / "t.parquet", traces.columns(STEPS, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return imported("mooncake", EXCERPT, tmp_path_factory.mktemp("blocks") / "t.parquet", tail="full")


def test_oracle_general_record_by_record(small: Trace, tmp_path: Path) -> None:
    counts = export_trace("oracle-general", small, tmp_path / "t.bin", BYTES)
    assert counts == {"records": 6, "deletes_left_out": 1}
    found = list(struct.iter_unpack("<IQIq", (tmp_path / "t.bin").read_bytes()))
    assert found == [
        (0, 0, 5000, 2), (1, 1, 7000, 3), (3, 0, 5000, -1), (4, 1, 7000, 4), (7, 1, 7000, 5), (9, 1, 7000, -1),
    ]  # fmt: skip


def test_oracle_general_next_accesses_of_a_long_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    monkeypatch.setattr(Trace, "batches", lambda self, size=997, more=(): _sized(self, 997))
    export_trace("oracle-general", trace, tmp_path / "t.bin", BYTES)
    found = list(struct.iter_unpack("<IQIq", (tmp_path / "t.bin").read_bytes()))
    later: dict[int, int] = {}
    for number in range(len(found) - 1, -1, -1):
        assert found[number][3] == later.get(found[number][1], -1)
        later[found[number][1]] = number


BATCHES = Trace.batches


def _sized(trace: Trace, size: int) -> Any:
    return BATCHES(trace, size)


def test_libcachesim_reads_it_and_hits_as_an_lru(blocks: Trace, tmp_path: Path) -> None:
    lib = pytest.importorskip("libcachesim")
    path = tmp_path / "t.oracleGeneral"
    export_trace("oracle-general", blocks, path, ExportOptions(bytes_per_token=1))
    reader = lib.TraceReader(str(path), lib.TraceType.ORACLE_GENERAL_TRACE)
    keys = [key for batch in blocks.batches() for key in batch["key"].tolist()]
    seen = [(request.obj_id, request.obj_size, request.next_access_vtime) for request in reader]
    assert [one[0] for one in seen] == keys
    assert {one[1] for one in seen} == {512}
    reader.reset()
    misses, _ = lib.LRU(cache_size=1000 * 512).process_trace(reader)
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for key in keys:
        hits += key in cache
        cache[key] = None
        cache.move_to_end(key)
        if len(cache) > 1000:
            cache.popitem(last=False)
    assert misses == pytest.approx(1 - hits / len(keys), abs=1e-9)


def test_objects_and_times_beyond_32_bits_are_refused(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5), ("w", 1, 70)]))
    with pytest.raises(InputError, match="row 1: 4690000000 bytes"):
        export_trace("oracle-general", trace, tmp_path / "t.bin", ExportOptions(bytes_per_token=67_000_000))
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_mlcommons_rows(small: Trace, tmp_path: Path) -> None:
    export_trace("mlcommons", small, tmp_path / "io.csv", BYTES)
    lines = (tmp_path / "io.csv").read_text().splitlines()
    assert lines[:3] == [
        "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase",
        "0.000000000,Write,5000,Tier-2,key_000000000000,Prefill",
        "1.500000000,Write,7000,Tier-2,key_000000000001,Prefill",
    ]
    assert lines[4] == "4.500000000,Read,7000,Tier-2,key_000000000001,Decode"
    assert len(lines) == 7


def test_mooncake_rows_with_sessions_and_delays(tmp_path: Path) -> None:
    batch = traces.columns(
        [("w", 0, 512), ("w", 1, 100), ("r", 0, 512), ("w", 2, 512), ("d", 2, 512), ("w", 3, 4)],
        requests=[0, 0, 1, 1, 1, 2],
        session_id=[0, 0, 0, 0, 0, 1], user_id=[0, 0, 0, 0, 0, 1], turn=[1, 1, 2, 2, 2, 1],
        step=[0, 0, 0, 0, 1, 0], qos=[0] * 6, time_ns=[0, 0, 3_000_000, 3_000_000, 3_500_000, 5_250_001],
        new_tokens=[0, 9, 0, 0, 3, 1], think_ns=[0, 0, 2_000_000, 0, 0, 0],
    )  # fmt: skip
    trace = traces.write(tmp_path / "t.parquet", batch, block_tokens=512)
    assert not list(trace.problems())
    export_trace("mooncake", trace, tmp_path / "t.jsonl", ExportOptions())
    assert [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()] == [
        {"timestamp": 0, "input_length": 612, "output_length": 9, "hash_ids": [0, 1], "session_id": "s0"},
        {"timestamp": 3, "input_length": 1024, "output_length": 3, "hash_ids": [0, 2], "session_id": "s0", "delay": 2},
        {"timestamp": 5.250001, "input_length": 4, "output_length": 1, "hash_ids": [3]},
    ]


def test_kvcache_simulators_own_lru_agrees_with_our_plan(blocks: Trace, tmp_path: Path) -> None:
    """Its rule: tokens of the longest cached prefix over all prompt tokens, in the last half of the requests.

    It evicts leaves of the prefix tree only and never the request's own path, which moves the rate by under 0.2 points
    where requests are small beside the cache; on the whole trace and 11,275 blocks both count 15,849,049 tokens.
    """
    pytest.importorskip("kvcache_sim")
    path, capacities = tmp_path / "t.jsonl", (1024, 2048, 4096)
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    export_trace("kvcache-simulator", trace, path, ExportOptions())
    # A block of 512 tokens of this model is 64 MiB.
    budgets = ",".join(str(blocks // 16) for blocks in capacities)
    command = ["--trace", path, "--model", "llama-3.1-8b", "--backend", "python", "--policies", "lru"]
    module = [sys.executable, "-m", "kvcache_sim", "run", *command, "--format", "json", "--budgets-gib", budgets]
    done = json.loads(subprocess.run(module, check=True, capture_output=True, text=True).stdout)
    assert done["metadata"]["uniqueBlocks"] == trace.metadata.counts["keys"]
    assert [point["cacheBlocks"] for point in done["points"]] == list(capacities)
    for point in done["points"]:
        ours = hit_rate_of_last_half(blocks, trace, point["cacheBlocks"])
        assert point["results"]["lru"]["hitRate"] == pytest.approx(ours, abs=0.002)


def hit_rate_of_last_half(blocks: Trace, trace: Trace, capacity: int) -> float:
    """The same figure from our plan of equal blocks, weighed by their tokens."""
    room = Decimal(capacity) * 512 * 2048 / 2**30
    plan = Plan(blocks, PlanOptions(TokenBytes(2048), (Decimal(0), Decimal(0), room)))
    of = traces.joined(list(trace.batches()))
    late = of["request_id"] >= 300
    hits = np.concatenate([part.moves.op_id[part.moves.move == HIT] for part in plan.stream()])
    return float(of["tokens"][hits[late[hits]]].sum() / of["tokens"][late].sum())


def test_fio_runs_the_job_and_moves_the_bytes(small: Trace, tmp_path: Path) -> None:
    if subprocess.run(["sh", "-c", "command -v fio"], check=False, capture_output=True).returncode:
        pytest.skip("needs fio")
    log = tmp_path / "trace.iolog"
    counts = export_trace("fio", small, log, ExportOptions(bytes_per_token=1_000_000))
    lines = log.read_text().splitlines()
    assert lines[:3] == ["fio version 3 iolog", "1 kv-cache.data add", "1 kv-cache.data open"]
    assert lines[3:5] == ["1 kv-cache.data write 0 4194304", "1 kv-cache.data write 4194304 806912"]
    assert counts["bytes_moved"] == sum(-(-n * 1_000_000 // 4096) * 4096 for n in (5, 7, 5, 7, 7, 7))
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["fio", "--output-format=json", f"{log}.fio"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert job["read"]["io_bytes"] + job["write"]["io_bytes"] == counts["bytes_moved"]
    assert job["write"]["io_bytes"] == sum(-(-n * 1_000_000 // 4096) * 4096 for n in (5, 7))


@pytest.mark.parametrize("format_", EXPORTS)
def test_what_exists_is_kept(format_: str, blocks: Trace, tmp_path: Path) -> None:
    (tmp_path / "o").write_text("precious")
    with pytest.raises(InputError, match="--force"):
        export_trace(format_, blocks, tmp_path / "o", BYTES)
    assert (tmp_path / "o").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]
    export_trace(format_, blocks, tmp_path / "o", ExportOptions(bytes_per_token=8, force=True))
    assert (tmp_path / "o").stat().st_size > 1000


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_uneven_blocks_are_refused(format_: str, small: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.parquet: it has no blocks; .*--block-tokens"):
        export_trace(format_, small, tmp_path / "o", BYTES)
    batch = traces.columns([("w", 0, 4), ("w", 1, 8)], requests=[0, 0])
    uneven = traces.write(tmp_path / "u.parquet", batch, block_tokens=8)
    with pytest.raises(InputError, match="request 0 is not made of full blocks"):
        export_trace(format_, uneven, tmp_path / "o", BYTES)
    assert [path.name for path in tmp_path.iterdir()] == ["u.parquet"]


def test_zstd(small: Trace, tmp_path: Path) -> None:
    for name in ("io.csv", "io.csv.zst"):
        export_trace("mlcommons", small, tmp_path / name, BYTES)
    import pyarrow as pa

    with pa.input_stream(tmp_path / "io.csv.zst", compression="zstd") as stream:
        assert stream.read() == (tmp_path / "io.csv").read_bytes()
