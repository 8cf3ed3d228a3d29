"""Imports of other labs' traces: cases worked by hand, published numbers, round trips."""

import json
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.plan import Plan, PlanOptions
from tests.support.command_line import Run
from tests.support.imports import EXCERPT, imported, lines, ops
from tests.support.paths import ROOT
from tests.support.workloads import rows as rows_of
from tests.tracegen.export.exports import export_trace
from tracegen.errors import InputError
from tracegen.formats import EXPORTS, FORMATS, IMPORTS
from tracegen.schema import Trace

# Pinned for ever: the excerpt as imported by default.
GOLDEN = "031c54ed6ed57273230f04628a87cd1c7c66554ba902e25278e46fdad94bb25a"
SECOND = 10**9


def lru(path: Path, capacity: int) -> int:
    """Count the hits of the published rule: a request's hits end with its first miss."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for line in path.read_text().splitlines():
        prefix = True
        for block in json.loads(line)["hash_ids"]:
            prefix &= block in cache
            hits += prefix
            cache[block] = None
            cache.move_to_end(block)
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits


@pytest.mark.parametrize(("capacity", "hits"), [(100, 576), (1000, 638), (3000, 1028)])
def test_a_plan_of_the_excerpt_hits_as_an_lru_cache_does(capacity: int, hits: int, tmp_path: Path) -> None:
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet", tail="full")
    nvme = Decimal(capacity) * 512 * 2048 / 2**30
    settings = PlanOptions(TokenBytes(2048), (Decimal(0), Decimal(0), nvme), headroom=Decimal(1))
    assert Plan(trace, settings).simulate().hits.nvme == lru(EXCERPT, capacity) == hits


def test_the_excerpt_makes_its_pinned_trace_and_survives_a_round_trip(tmp_path: Path) -> None:
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    assert trace.metadata.fingerprint == GOLDEN
    assert trace.metadata.block_tokens == 512
    assert trace.metadata.prefix_chained
    export_trace("mooncake", trace, tmp_path / "back.jsonl")
    assert [json.loads(a) for a in (tmp_path / "back.jsonl").read_text().splitlines()] == [
        json.loads(a) for a in EXCERPT.read_text().splitlines()
    ]
    again = imported("mooncake", tmp_path / "back.jsonl", tmp_path / "again.parquet")
    assert again.metadata.fingerprint == GOLDEN


def test_calls_become_the_ops_worked_out_by_hand(tmp_path: Path) -> None:
    """Two requests share a block of 512; the second one's tail has 100 tokens."""
    file = lines(
        tmp_path / "t.jsonl",
        {"timestamp": 5000, "input_length": 612, "output_length": 70, "hash_ids": [7, 9]},
        {"timestamp": 8500, "input_length": 700, "output_length": 3, "hash_ids": [7, 8]},
    )
    names = ("time_ns", "user_id", "turn", "step", "phase", "op", "source", "key", "tokens", "new_tokens", "think_ns")
    common = (1, 0, "prefill")
    assert rows_of(ops(imported("mooncake", file, tmp_path / "t.parquet")), *names) == [
        (0, 0, *common, "write", "user", 0, 512, 0, 0),
        (0, 0, *common, "write", "user", 1, 100, 70, 0),
        (3500 * 10**6, 1, *common, "read", "system", 0, 512, 0, 0),
        (3500 * 10**6, 1, *common, "write", "user", 2, 188, 3, 0),
    ]
    for tail, tokens in (("full", [512] * 4), ("drop", [512, 512])):
        assert ops(imported("mooncake", file, tmp_path / "t.parquet", tail=tail))["tokens"].tolist() == tokens
    decoded = ops(imported("mooncake", file, tmp_path / "t.parquet", decode_reads=True))
    first = decoded["request_id"] == 0
    # Loaded, then read for 32, 32 and 6 tokens: four times both blocks.
    assert (decoded["phase"][first] == 1).sum() == 8
    assert decoded["new_tokens"][first].tolist() == [0, 0, 0, 0, 0, 32, 0, 32, 0, 6]


def test_sessions_with_delays_are_closed_loops(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "t.jsonl",
        {"timestamp": 0, "session_id": "a", "input_length": 512, "output_length": 100, "hash_ids": [1]},
        {"session_id": "a", "delay": 2000, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]},
        {"timestamp": 1000, "session_id": "b", "input_length": 512, "output_length": 1, "hash_ids": [1]},
    )
    of = ops(imported("mooncake", file, tmp_path / "t.parquet"))
    assert rows_of(of, "time_ns", "user_id", "turn", "source", "think_ns") == [
        (0, 0, 1, "user", 0),
        (SECOND, 1, 1, "system", 0),
        (5 * SECOND, 0, 2, "multi_turn", 2 * SECOND),
        (5 * SECOND, 0, 2, "user", 0),
    ]


def test_with_chain_an_id_stands_for_all_blocks_before_it(tmp_path: Path) -> None:
    chat = {"parent_chat_id": -1, "input_length": 48, "output_length": 1, "type": "text", "turn": 1}
    file = lines(
        tmp_path / "t.jsonl",
        chat | {"chat_id": 1, "timestamp": 0, "hash_ids": [5, 6, 6]},
        chat | {"chat_id": 2, "timestamp": 1, "hash_ids": [6, 5, 6]},
        chat | {"chat_id": 3, "parent_chat_id": 1, "timestamp": 2, "hash_ids": [5, 6, 9]},
    )
    trace = imported("bailian", file, tmp_path / "t.parquet", chain=True)
    assert ops(trace)["key"].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 6]
    assert ops(trace)["session_id"].tolist() == [0] * 3 + [1] * 3 + [0] * 3
    assert ops(trace)["time_ns"].max() == 2 * SECOND
    assert trace.metadata.prefix_chained
    with pytest.raises(InputError, match=r"t\.jsonl, line 1: a block twice.*`chain`"):
        imported("bailian", file, tmp_path / "t.parquet")


def test_a_restarted_session_keeps_its_user_and_shift(tmp_path: Path) -> None:
    """Each prompt is shorter than its session: a new session of the same user, at its own time."""
    file = tmp_path / "b.csv"
    file.write_text(
        "Timestamp,Session ID,Request tokens,Response tokens\n0,A,1000,1000\n1,A,500,100\n2,A,900,100\n3,A,100,100\n"
    )
    trace = imported("burstgpt", file, tmp_path / "t.parquet")
    assert trace.metadata.counts["users"] == 1
    assert trace.metadata.counts["requests_put_off"] == 3
    assert trace.metadata.counts["sessions_begun_anew"] == 2
    for seed in range(8):
        moved = imported("burstgpt", file, tmp_path / "j.parquet", jitter_s=500, seed=seed, decode_reads=False)
        own = ops(moved)["source"] == 0
        assert ops(moved)["time_ns"][own][0] > 0
        assert (np.diff(ops(moved)["time_ns"][own]) == SECOND).all(), "the sessions of a user move together"


def test_a_delay_counts_from_the_sessions_last_end_however_late_its_row_comes(tmp_path: Path) -> None:
    row = {"input_length": 512, "output_length": 0}
    many = [row | {"timestamp": 1000 * n, "hash_ids": [n + 5]} for n in range(9)]
    first = row | {"timestamp": 0, "session_id": "a", "hash_ids": [1]}
    last = row | {"delay": 500, "session_id": "a", "hash_ids": [2]}
    of = ops(imported("mooncake", lines(tmp_path / "t.jsonl", first, *many, last), tmp_path / "t.parquet"))
    assert of["time_ns"][of["turn"] == 2].tolist() == [SECOND // 2]


def test_jitter_spreads_requests_and_a_sample_keeps_whole_sessions(tmp_path: Path) -> None:
    plain = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    spread = imported("mooncake", EXCERPT, tmp_path / "u.parquet", jitter_s=3, seed=5)
    assert len(np.unique(ops(spread)["time_ns"])) == 600
    assert len(np.unique(ops(plain)["time_ns"])) < 200
    shift = np.sort(ops(spread)["time_ns"]) - ops(plain)["time_ns"]
    assert shift.min() > -3 * SECOND
    assert shift.max() < 3 * SECOND
    assert spread.metadata.recipe["import"]["jitter_s"] == 3


def test_several_files_of_a_format_have_one_clock(tmp_path: Path) -> None:
    rows = EXCERPT.read_text().splitlines(keepends=True)
    parts = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for number, part in enumerate(parts):
        part.write_text("".join(rows[number::2]))
    whole = imported("mooncake", EXCERPT, tmp_path / "t.parquet").metadata.counts
    both = imported("mooncake", parts, tmp_path / "t.parquet", shared_ids=True)
    assert (both.metadata.counts["requests"], both.metadata.counts["keys"]) == (600, whole["keys"])
    apart = imported("mooncake", parts, tmp_path / "u.parquet")
    assert apart.metadata.counts["keys"] > whole["keys"], "no reuse between unrelated files"
    assert ops(both)["time_ns"].max() == ops(apart)["time_ns"].max()


def test_the_import_and_export_commands_work(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = run("tracegen", "import", "mooncake", EXCERPT, "--licence", "Apache-2.0", "-o", trace)
    assert GOLDEN in done.stdout
    (source,) = Trace(trace).metadata.sources
    assert source["licence"] == "Apache-2.0"
    assert len(source["sha256"]) == 64
    assert "blocks of 512 tokens, prefix-chained" in run("tracegen", "info", trace).stdout
    run("tracegen", "export", "mlcommons", trace, "--bytes-per-token", 64, "-o", tmp_path / "io.csv.zst")
    again = ["tracegen", "import", "mlcommons", tmp_path / "io.csv.zst", "--bytes-per-token", 64]
    run(*again, "-o", tmp_path / "io.parquet")
    assert Trace(tmp_path / "io.parquet").ops == Trace(trace).ops
    bad = tmp_path / "bad.jsonl"
    bad.write_text(EXCERPT.read_text() + "nonsense\n")
    left_out = run("tracegen", "import", "mooncake", bad, "--skip-bad", "-o", tmp_path / "b.parquet")
    assert "1 bad row left out: not JSON" in left_out.stderr


def test_the_table_holds_every_format() -> None:
    """A format is one module and one line."""
    shared = {"__init__", "rows", "export", "format"}
    modules = {path.stem for path in (ROOT / "tracegen" / "formats").glob("*.py")} - shared
    functions = [format_.read or format_.write for format_ in FORMATS.values()]
    assert {function.__module__.rpartition(".")[2] for function in functions if function} == modules

    from tracegen.commands.convert import export, import_

    for command, names in ((import_, IMPORTS), (export, EXPORTS)):
        assert all(name in (command.help or "") for name in names)
