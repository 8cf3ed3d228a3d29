"""What is exported is read back by readers that share nothing with the writers, and by the tools it is meant for."""

import csv
import json
import re
import shutil
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replayer.model import TokenBytes
from replayer.plan import HIT, Plan, PlanOptions, Totals
from tests.support import traces
from tests.tracegen.test_import import EXCERPT, FULL, imported
from tracegen.exchange import EXPORTS, export_trace
from tracegen.formats.export import ExportOptions
from tracegen.recipe import Mix, Prefix, Recipe
from tracegen.schema import Columns, InputError, Trace

STEPS = [("w", 0, 5), ("w", 1, 7), ("r", 0, 5), ("d", 1, 7), ("x", 0, 5), ("r", 1, 7), ("r", 1, 7)]
BYTES = ExportOptions(bytes_per_token=1000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    changes = {"time_ns": np.arange(7) * 1_500_000_000}
    return traces.write(tmp_path_factory.mktemp("small") / "t.parquet", traces.columns(STEPS, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return imported("mooncake", EXCERPT, tmp_path_factory.mktemp("blocks") / "t.parquet", tail="full")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Sessions of several turns in blocks, with decode reads and stored answers, users' requests interleaved."""
    blocks = {"block_tokens": 64, "save_decode": True, "decode_reads": True}
    recipe = Recipe(users=9, requests=80, mix=Mix(personas=1), prefix=Prefix(share=0.5, tokens=(200,)), **blocks)
    return traces.write(tmp_path_factory.mktemp("office") / "t.parquet", traces.made(recipe), block_tokens=64)


def rows_of(trace: Trace) -> Iterator[dict[str, Any]]:
    """The ops as another library reads them."""
    return pl.read_parquet(trace.path).iter_rows(named=True)


def requests_of(trace: Trace) -> list[dict[str, Any]]:
    """What a trace's requests prefill and generate, put together op by op."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows_of(trace):
        one = found.setdefault(row["request_id"], row | {"keys": [], "prompt": 0, "generated": 0})
        one["generated"] += row["new_tokens"]
        if row["phase"] == "prefill" and row["op"] != "delete":
            one["keys"].append(row["key"])
            one["prompt"] += row["tokens"]
    return [one for one in found.values() if one["keys"]]


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


def test_libcachesim_reads_it_and_hits_as_lru_and_belady(blocks: Trace, tmp_path: Path) -> None:
    lib = pytest.importorskip("libcachesim")
    path = tmp_path / "t.oracleGeneral"
    export_trace("oracle-general", blocks, path, ExportOptions(bytes_per_token=1))
    reader = lib.TraceReader(str(path), lib.TraceType.ORACLE_GENERAL_TRACE)
    keys = [key for batch in blocks.batches() for key in batch["key"].tolist()]
    seen = [(request.obj_id, request.obj_size, request.next_access_vtime) for request in reader]
    never, later = 2**63 - 1, dict[int, int]()
    for number in range(len(keys) - 1, -1, -1):
        assert seen[number] == (keys[number], 512, later.get(keys[number], never))
        later[keys[number]] = number
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
    # The optimum by next access comes out only if that is a number of a record, not a distance.
    reader.reset()
    best, _ = lib.Belady(cache_size=1000 * 512).process_trace(reader)
    assert best == pytest.approx(1 - optimal_hits(keys, 1000) / len(keys), abs=1e-9)


def optimal_hits(keys: list[int], capacity: int) -> int:
    uses: dict[int, list[int]] = {}
    for number in range(len(keys) - 1, -1, -1):
        uses.setdefault(keys[number], []).append(number)
    cache: dict[int, float] = {}
    hits = 0
    for key in keys:
        uses[key].pop()
        hits += key in cache
        if key not in cache and len(cache) == capacity:
            del cache[max(cache, key=lambda one: cache[one])]
        cache[key] = uses[key][-1] if uses[key] else float("inf")
    return hits


def test_objects_and_times_beyond_32_bits_are_refused(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5), ("w", 1, 70)]))
    with pytest.raises(InputError, match="row 1: 4690000000 bytes"):
        export_trace("oracle-general", trace, tmp_path / "t.bin", ExportOptions(bytes_per_token=67_000_000))
    late = traces.columns([("w", 0, 5), ("w", 1, 70)], time_ns=[0, 2**32 * 10**9])
    with pytest.raises(InputError, match="row 1: 4294967296 seconds"):
        export_trace("oracle-general", traces.write(tmp_path / "t.parquet", late), tmp_path / "t.bin", BYTES)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_mlcommons_record_by_record(office: Trace, tmp_path: Path) -> None:
    counts = export_trace("mlcommons", office, tmp_path / "io.csv", BYTES)
    with (tmp_path / "io.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert counts == {"rows": len(found), "deletes_left_out": 0}
    for row, op in zip(found, rows_of(office), strict=True):
        assert Decimal(row.pop("Timestamp")) * 10**9 == op["time_ns"]
        assert int(row.pop("Key").removeprefix("key_")) == op["key"]
        size, phase = str(op["tokens"] * 1000), op["phase"].capitalize()
        assert row == {"Operation": op["op"].capitalize(), "Object_Size_Bytes": size, "Tier": "Tier-2", "Phase": phase}
    assert {row["phase"] for row in rows_of(office)} == {"prefill", "decode"}


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


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_requests_record_by_record(
    format_: str, office: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trace, "batches", lambda self, size=0, more=(): _sized(self, 199))
    counts = export_trace(format_, office, tmp_path / "t.jsonl", ExportOptions())
    found = [json.loads(line, parse_float=Decimal) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    if format_ == "mooncake":
        assert found.pop(0) == {"block_size": 64}, "a header, as its blocks are not of 512 tokens"
    wanted = requests_of(office)
    assert counts["requests"] == len(found) == len(wanted) == 80
    assert counts["blocks"] == sum(len(one["keys"]) for one in wanted)
    several = {one["session_id"] for one in wanted if one["turn"] > 1}
    assert several
    for row, one in zip(found, wanted, strict=True):
        same = {"input_length": one["prompt"], "output_length": one["generated"], "hash_ids": one["keys"]}
        if format_ == "kvcache-simulator":
            same["block_size"] = 64
        else:
            same["timestamp"] = Decimal(one["time_ns"]) / 10**6
            same |= {"session_id": f"s{one['session_id']}"} if one["session_id"] in several else {}
            same |= {"delay": Decimal(one["think_ns"]) / 10**6} if one["turn"] > 1 else {}
        assert row == same


def test_a_prefill_in_two_places_is_refused(tmp_path: Path) -> None:
    batch = traces.columns([("w", 0, 8), ("w", 1, 8), ("w", 2, 8)], requests=[0, 1, 0], step=[0, 0, 1])
    trace = traces.write(tmp_path / "t.parquet", batch, block_tokens=8)
    with pytest.raises(InputError, match="row 2: request 0 goes on"):
        export_trace("mooncake", trace, tmp_path / "o", ExportOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


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


def test_kvcache_simulators_own_lru_agrees_with_its_rule_and_our_plan(blocks: Trace, tmp_path: Path) -> None:
    """Its rule: tokens of the longest cached prefix over all prompt tokens, in the last half of the requests."""
    pytest.importorskip("kvcache_sim")
    path, capacities = tmp_path / "t.jsonl", (16, 64, 1024, 2048, 4096)
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    export_trace("kvcache-simulator", trace, path, ExportOptions())
    # A block of 512 tokens of this model is 64 MiB.
    budgets = ",".join(str(blocks // 16) for blocks in capacities)
    command = ["--trace", path, "--model", "llama-3.1-8b", "--backend", "python", "--policies", "lru"]
    module = [sys.executable, "-m", "kvcache_sim", "run", *command, "--format", "json", "--budgets-gib", budgets]
    done = json.loads(subprocess.run(module, check=True, capture_output=True, text=True).stdout)
    assert done["metadata"]["uniqueBlocks"] == trace.metadata.counts["keys"]
    assert [point["cacheBlocks"] for point in done["points"]] == list(capacities)
    requests = tokens_of(trace)
    for point in done["points"]:
        theirs = point["results"]["lru"]
        assert (theirs["hitTokens"], theirs["totalTokens"]) == prefix_lru(requests, point["cacheBlocks"])
        if point["cacheBlocks"] >= 1024:
            ours = hits_of_last_half(blocks, trace, point["cacheBlocks"]) / theirs["totalTokens"]
            assert theirs["hitRate"] == pytest.approx(ours, abs=0.002)


@pytest.mark.skipif(not FULL.exists(), reason="needs Mooncake's whole conversation trace")
def test_prefix_lru_and_our_plan_on_a_whole_trace(tmp_path: Path) -> None:
    trace = imported("mooncake", FULL, tmp_path / "t.parquet")
    equal = imported("mooncake", FULL, tmp_path / "full.parquet", tail="full")
    requests = tokens_of(trace)
    for capacity, theirs, ours in (
        (1000, 3_173_822, 3_172_798), (10_000, 14_910_149, 14_859_461), (11_275, 15_849_049, 15_849_049),
        (30_000, 23_347_784, 23_347_784),
    ):  # fmt: skip
        assert prefix_lru(requests, capacity) == (theirs, 67_915_607)
        assert hits_of_last_half(equal, trace, capacity) == ours


def tokens_of(trace: Trace) -> list[dict[int, int]]:
    """The tokens of each block of each request, in order."""
    requests: dict[int, dict[int, int]] = {}
    for row in rows_of(trace):
        requests.setdefault(row["request_id"], {})[row["key"]] = row["tokens"]
    return list(requests.values())


def prefix_lru(requests: list[dict[int, int]], capacity: int) -> tuple[int, int]:
    """What kvcache-simulator counts: tokens hit and asked for in the last half, by an LRU that keeps prefixes whole.

    A request's cached prefix is touched before anything is stored, each block is more recent than what follows it, and
    what does not fit beside the request's own path is not stored. So a prefix loses its end first. The waterfall goes
    block by block instead: a prefix loses its beginning first, which lets the rest hit no more, but only the prefix that
    is being evicted when it is asked for counts; and a request that fills the cache evicts its own beginning.
    """
    cache: OrderedDict[int, None] = OrderedDict()
    hit = total = 0
    for number, tokens in enumerate(requests):
        path = list(tokens)
        length = next((place for place, key in enumerate(path) if key not in cache), len(path))
        if number >= len(requests) // 2:
            hit += sum(tokens[key] for key in path[:length])
            total += sum(tokens.values())
        for key in path[:length]:
            cache.move_to_end(key)
        stored = path[length : max(length, capacity)]
        while len(cache) + len(stored) > capacity:
            cache.popitem(last=False)
        for key in reversed(path[: length + len(stored)]):
            cache[key] = None
            cache.move_to_end(key)
    return hit, total


def hits_of_last_half(blocks: Trace, trace: Trace, capacity: int) -> int:
    """The same by our plan of equal blocks, weighed by their tokens."""
    room = Decimal(capacity) * 512 * 2048 / 2**30
    plan = Plan(blocks, PlanOptions(TokenBytes(2048), (Decimal(0), Decimal(0), room)))
    of = traces.joined(list(trace.batches()))
    late = of["request_id"] >= trace.metadata.counts["requests"] // 2
    moved = [Totals().tell(plan.workload, part) for part in plan.planner().stretches()]
    hits = np.concatenate([rows[rows[:, 2] == HIT, 0] for rows in moved])
    return int(of["tokens"][hits[late[hits]]].sum())


def test_fio_runs_the_job_and_moves_the_bytes(small: Trace, tmp_path: Path) -> None:
    if not shutil.which("fio"):
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
    assert (folder / "kv-cache.data").stat().st_size == counts["bytes_of_disk"]


def test_the_iolog_record_by_record(office: Trace, tmp_path: Path) -> None:
    counts = export_trace("fio", office, tmp_path / "t.iolog", ExportOptions(bytes_per_token=131_071))
    first, add, open_, *lines, close = (tmp_path / "t.iolog").read_text().splitlines()
    assert [first, add, open_] == ["fio version 3 iolog", "1 kv-cache.data add", "1 kv-cache.data open"]
    places: dict[int, int] = {}
    end, left = 0, iter(lines)
    for op in rows_of(office):
        size = -(-op["tokens"] * 131_071 // 4096) * 4096
        place = places.setdefault(op["key"], end)
        end = max(end, place + size)
        while size:
            time, file, action, offset, length = next(left).split()
            assert (int(time), file, action) == (op["time_ns"] // 1000 + 1, "kv-cache.data", op["op"])
            assert int(offset) == place
            assert 0 < int(length) <= min(size, 4 << 20)
            place, size = place + int(length), size - int(length)
    assert not list(left)
    assert close == f"{op['time_ns'] // 1000 + 1} kv-cache.data close"
    assert counts["pieces"] == len(lines)
    assert counts["bytes_of_disk"] == end


def test_fio_keeps_the_times_and_takes_the_file_to_test(tmp_path: Path) -> None:
    if not shutil.which("fio"):
        pytest.skip("needs fio")
    batch = traces.columns([("w", 0, 4), ("r", 0, 4), ("r", 0, 4)], time_ns=[0, 400_000_000, 800_000_000])
    log, data = tmp_path / "a folder" / "t.iolog", tmp_path / "device"
    log.parent.mkdir()
    export_trace("fio", traces.write(tmp_path / "t.parquet", batch), log, ExportOptions(bytes_per_token=1024))
    job = log.with_name("t.iolog.fio")
    job.write_text(job.read_text().replace("\nreplay_no_stall=1", ""))
    command = ["fio", "--output-format=json", f"--replay_redirect={data}", str(job)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    (found,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert (found["write"]["total_ios"], found["read"]["total_ios"]) == (1, 2)
    assert 750 <= found["job_runtime"] < 5000
    assert data.stat().st_size == 4096


@pytest.mark.parametrize("name", ["a:b", "a;b", "a#b", "${HOME}", "t.iolog.zst"])
def test_paths_that_fio_cannot_take_are_refused(name: str, small: Trace, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="fio reads plain logs only"):
        export_trace("fio", small, tmp_path / name / ("t.iolog" if "zst" not in name else name), BYTES)
    assert not list((tmp_path / name).iterdir())


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


@pytest.mark.parametrize("format_", ["fio", "mlcommons", "oracle-general"])
@pytest.mark.parametrize("number", [0, -1, 2**32, 2**70])
def test_bytes_are_asked_for(format_: str, number: int, small: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--bytes-per-token"):
        export_trace(format_, small, tmp_path / "o", ExportOptions(bytes_per_token=number))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_", EXPORTS)
@pytest.mark.parametrize("name", ["none/o", "file/o", "o" * 300])
def test_what_cannot_be_written_is_one_sentence(format_: str, name: str, blocks: Trace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .* choose another place with -o"):
        export_trace(format_, blocks, tmp_path / name, BYTES)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("format_", EXPORTS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError("damaged"), OSError(28, "No space left on device")])
def test_no_partial_file_stays(
    format_: str, error: Any, blocks: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partials: list[str] = []

    def broken(trace: Trace, size: int = 0, more: tuple[str, ...] = ()) -> Iterator[Columns]:
        for number, batch in enumerate(BATCHES(trace, 1000)):
            found = [path.name for path in tmp_path.iterdir()]
            partials.extend(found)
            if found and number == 3:
                raise error
            yield batch

    monkeypatch.setattr(Trace, "batches", broken)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError):
        export_trace(format_, blocks, tmp_path / "o", BYTES)
    assert {re.sub(r"\.\d+-0\.partial$", "", name) for name in partials} == {"o", *["o.fio"][: format_ == "fio"]}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_what_requests_do_not_say_is_counted(format_: str, tmp_path: Path) -> None:
    steps = [("w", 0, 8), ("d", 0, 8), ("d", 0, 8), ("x", 0, 8), ("w", 1, 3)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, requests=[0, 0, 1, 2, 3]), block_tokens=8)
    counts = export_trace(format_, trace, tmp_path / "o", ExportOptions())
    left_out = {"requests_left_out": 2, "decode_ops_left_out": 2, "deletes_left_out": 1}
    assert {name: counts[name] for name in ("requests", *left_out)} == {"requests": 2, **left_out}
