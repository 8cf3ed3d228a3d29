"""`replayer size` as a user types it."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replayer.cli import main
from tests.support import traces

KEYS = 20


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = [("w", key, 8) for key in range(KEYS)] + [("r", key, 8) for key in range(KEYS)] * 3
    path = tmp_path_factory.mktemp("size") / "t.parquet"
    times = [at * 10**9 for at in range(len(steps))]
    return traces.write(path, traces.columns(steps, time_ns=times)).path


def size(*words: object) -> Result:
    return CliRunner().invoke(main, ["size", *map(str, words)])


def sized(*words: object) -> dict[str, object]:
    done = size(*words, "--by", "ops", "--model", "llama3.1-8b", "--order", "trace", "--set", "headroom=1", "--json")
    assert done.exit_code == 0, done.output
    content: dict[str, object] = json.loads(done.stdout)
    return content


def test_the_answer_is_a_table_and_sentences(trace: Path) -> None:
    done = size(trace, "--model", "llama3.1-8b", "--hit-rate", "75%", "--order", "trace", "--set", "headroom=1")
    assert done.exit_code == 0
    assert "bytes per token; with a request's own decode reads" in done.stdout
    assert re.search(r"^\* +0 +0\.01953 +75\.0%", done.stdout, re.M)
    assert "Take 20 MiB of NVMe: it hits 75.0% of prompt tokens; no size hits more than 75.0%" in done.stdout
    assert "What binds is the hit rate: 19 MiB of NVMe hits 0.0% and misses the hit rate" in done.stdout
    assert "The cliff is between 20 MiB and 10 MiB of NVMe" in done.stdout
    assert "On the first half of the requests alone, no size reaches the hit rate" in done.stdout
    assert max(map(len, done.stdout.splitlines()[2:12])) <= 100


def test_a_rate_that_no_size_reaches_is_refused_in_a_sentence(trace: Path) -> None:
    """A quarter of the prompt tokens is new."""
    done = size(trace, "--model", "llama3.1-8b", "--hit-rate", "76%")
    assert "76% of prompt tokens cannot be had: a cache that never evicts hits 75.0%" in done.stdout
    assert "Take" not in done.stdout


def test_decode_reads_are_in_no_hit_rate(tmp_path: Path) -> None:
    """Ten requests write, read the same to decode, and nothing is used again: no share of anything hits."""
    steps = [(op, key, 8) for key in range(KEYS) for op in ("w", "d", "d")]
    requests = [at // 3 for at in range(len(steps))]
    path = traces.write(tmp_path / "t.parquet", traces.columns(steps, requests)).path
    for by in ("tokens", "ops", "requests"):
        done = size(path, "--model", "llama3.1-8b", "--hit-rate", "1%", "--by", by, "--decode", "reread", "--json")
        bound = json.loads(done.stdout)["bound"]["hit_rate"]
        assert bound == (0.0 if by == "tokens" else None), done.stdout


def test_sizes_reproduce_in_a_plan(trace: Path) -> None:
    chosen = sized(trace, "--hit-rate", 1)["chosen"]
    assert isinstance(chosen, dict)
    flags = ["--cpu-mem-gb", chosen["cpu_gib"], "--storage-capacity-gb", chosen["nvme_gib"]]
    call = ["plan", trace, "--model", "llama3.1-8b", "--order", "trace", "--set", "headroom=1", *flags, "--json"]
    planned = json.loads(CliRunner().invoke(main, list(map(str, call))).stdout)
    assert sum(planned["hits"].values()) == planned["reads"] * chosen["hit_rate"]


def test_engines_have_sizes_of_their_own(trace: Path) -> None:
    own = sized(trace, "--hit-rate", 1, "--storage-capacity-gb", 0, "--arrangement", "mlperf")["chosen"]
    assert isinstance(own, dict)
    assert own["hit_rate"] == 1.0
    bound = sized(trace, "--hit-rate", 1, "--set", "chunk_tokens=16")
    assert bound["chosen"] is None
    assert bound["binds"] == ["hit rate"]


def test_loading_is_weighed_if_both_rates_are_known(trace: Path) -> None:
    weighed = sized(trace, "--hit-rate", 1, "--nvme-gib-s", 7, "--prefill-tok-s", 8000)["break_even"]
    assert isinstance(weighed, dict)
    assert weighed["load_tok_s"] == 7 * 2**30 / 131072
    assert sized(trace, "--hit-rate", 1)["break_even"] is None


def test_rounds_need_no_trace() -> None:
    flags = ["--rounds", "20x10x4096", "--model", "qwen3-8b", "--pool-gb"]
    done = size(*flags, 80)
    assert "Hits fall in round 7: its working set of 84,557,168,640 bytes is the first" in done.stdout
    assert json.loads(size(*flags, 80, "--json").stdout)["first_round_above"] == 7
    assert json.loads(size(*flags, "80GiB", "--json").stdout)["pool_bytes"] == 80 * 2**30
    assert "All 10 rounds fit the pool" in size(*flags, 200).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "no trace is named; name one, or pass --rounds and --pool-gb"),
        (["TRACE"], "no hit rate is asked for; pass one, such as --hit-rate 0.9"),
        (["TRACE", "--hit-rate", 90], "--hit-rate 90: is not a share from 0 to 1; write 0.9 or 90%"),
        (["TRACE", "--hit-rate", 0.9, "--price-dram", 3], "pass --price-nvme, too"),
        (["TRACE", "--hit-rate", 0.9, "--price-nvme", 3], "pass --price-dram, too"),
        (["TRACE", "--hit-rate", 0.9, "--price-nvme", -3, "--price-dram", 1], "--price-nvme -3: is negative"),
        (
            ["TRACE", "--hit-rate", 0.9, "--cpu-mem-gb", 3, "--storage-capacity-gb", 4],
            "leave --cpu-mem-gb or --storage-capacity-gb out",
        ),
        (["TRACE", "--hit-rate", 0.9, "--pool-gb", 3], "--pool-gb: goes with --rounds only"),
        (["--rounds", "3x3"], "write for example 20x10x4096"),
        (["--rounds", "3x3x3", "--pool-gb", 3], "--rounds: --model is missing"),
        (["--rounds", "3x3x3", "--model", "llama3.1-8b"], "--rounds: --pool-gb is missing"),
        (["--rounds", "3x3x3", "--pool-gb", 3, "--arrangement", "vllm"], "leave out --arrangement"),
        (["TRACE", "--rounds", "3x3x3", "--pool-gb", 3], "leave the trace out"),
    ],
)
def test_wrong_usage_ends_in_one_sentence(trace: Path, words: list[object], expected: str) -> None:
    done = size(*(trace if word == "TRACE" else word for word in words))
    assert done.exit_code == 2
    assert expected in done.output
