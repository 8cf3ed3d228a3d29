"""`replayer size` as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import traces
from tests.support.command_line import here

KEYS = 20
MODEL = ("--model", "llama3.1-8b")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty objects of 1 MiB are written, then read in turn three times."""
    steps = [("w", key, 8) for key in range(KEYS)] + [("r", key, 8) for key in range(KEYS)] * 3
    path = tmp_path_factory.mktemp("size") / "t.parquet"
    return traces.write(path, traces.columns(steps, time_ns=[at * 10**9 for at in range(len(steps))])).path


def sized(*words: object) -> Any:
    done = here("replayer", "size", *words, *MODEL, "--set", "headroom=1", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_answer_is_a_table_and_a_sentence_and_a_page(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "size.html"
    done = here("replayer", "size", trace, *MODEL, "--hit-rate", "75%", "--set", "headroom=1", "-o", page)
    assert done.returncode == 0, done.stderr
    (starred, cliff) = (line.split() for line in done.stdout.splitlines() if line.startswith("  *"))
    assert starred[:4] == ["*", "0", "0.01953", "75.0%"]
    assert cliff == ["*", "0.01953", "75.0%", "75.0%"]
    assert "Take 20 MiB of NVMe (75.0% hit)." in done.stdout
    assert "Take 20 MiB of NVMe" in page.read_text()


def test_a_rate_that_no_size_reaches_has_no_size(trace: Path) -> None:
    """A quarter of the prompt tokens is new."""
    found = sized(trace, "--hit-rate", "76%")
    assert (found["chosen"], found["binds"], found["bound"]["hit_rate"]) == (None, ["hit rate"], 0.75)
    assert found["sentence"].startswith("76% of prompt tokens cannot be had")


@pytest.mark.parametrize(("by", "bound"), [("tokens", 0.0), ("ops", None), ("requests", None)])
def test_decode_reads_are_in_no_hit_rate(by: str, bound: float | None, tmp_path: Path) -> None:
    """Ten requests write, read the same to decode, and nothing is used again: no share of anything hits."""
    steps = [(op, key, 8) for key in range(KEYS) for op in ("w", "d", "d")]
    path = traces.write(tmp_path / "t.parquet", traces.columns(steps, [at // 3 for at in range(len(steps))])).path
    found = sized(path, "--hit-rate", "1%", "--by", by, "--decode", "reread")
    assert found["bound"]["hit_rate"] == bound
    assert "67%" in found["subject"][0], "the share of decode reads is named"


def test_sizes_reproduce_in_a_plan(trace: Path) -> None:
    chosen = sized(trace, "--hit-rate", 1, "--by", "ops")["chosen"]
    flags = ["--cpu-mem-gb", chosen["cpu_gib"], "--storage-capacity-gb", chosen["nvme_gib"]]
    planned = here("replayer", "plan", trace, *MODEL, "--order", "trace", "--set", "headroom=1", *flags, "--json")
    content = json.loads(planned.stdout)
    assert sum(content["hits"].values()) == content["reads"] * chosen["hit_rate"]


def test_sizes_are_judged_in_the_order_of_plans_too(tmp_path: Path) -> None:
    """A trace of users, whose plan has the order of a server: its hits are those of `replayer plan`."""
    chat = tmp_path / "chat.parquet"
    assert here("tracegen", "generate", "chat", "--users", 5, "--duration", 60, "-o", chat).returncode == 0
    found = sized(chat, "--hit-rate", "60%", "--storage-capacity-gb", 0)
    flags = ["--cpu-mem-gb", found["chosen"]["cpu_gib"], "--storage-capacity-gb", 0, "--set", "headroom=1"]
    planned = json.loads(here("replayer", "plan", chat, *MODEL, *flags, "--json").stdout)
    served = found["as_served"]
    assert served["hit_rate"] == pytest.approx(planned["hit_rate_tokens"])
    assert served["hit_rate"] != found["chosen"]["hit_rate"]
    is_doubted = any(doubt["headline"].startswith("too small") for doubt in found["doubts"])
    assert is_doubted == (served["hit_rate"] < 0.6)


def test_engines_have_sizes_of_their_own(trace: Path) -> None:
    words = (trace, "--hit-rate", 1, "--by", "ops")
    assert sized(*words, "--storage-capacity-gb", 0, "--arrangement", "mlperf")["chosen"]["hit_rate"] == 1.0
    assert sized(*words, "--set", "chunk_tokens=16")["chosen"] is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--hit-rate", 90], "'--hit-rate': 90 must be"),
        (["--hit-rate", 0.9, "--price-dram", 3], "--price-nvme"),
        (["--hit-rate", 0.9, "--cpu-mem-gb", 3, "--storage-capacity-gb", 4], "leave --cpu-mem-gb or "),
    ],
)
def test_wrong_usage_names_the_flag(trace: Path, words: list[object], expected: str) -> None:
    done = here("replayer", "size", trace, *MODEL, *words)
    assert done.returncode == 2
    assert expected in done.stderr
