"""Arrangements as users choose them: flags, their refusals, and what `replayer plan` prints."""

import json
from pathlib import Path
from typing import Any

import pytest

import replayer
from replayer.arrangements.choosing import choose_arrangement
from replayer.arrangements.loading import describe_arrangement, load_arrangement
from tests.support import traces
from tests.support.command_line import here, sentence
from tracegen.errors import InputError
from tracegen.schema import Trace

SIZES = ("--model", "tiny-1b", "--gpu-mem-gb", "0.001", "--cpu-mem-gb", "0.002", "--storage-capacity-gb", "0.01")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Ten objects of 40 tokens, one request each, written and then read twice in turn."""
    steps: list[traces.Step] = [("w", key, 40) for key in range(10)]
    steps += [("r", key, 40) for key in (*range(10), *range(10))]
    times = [60 * 10**9 * op for op in range(len(steps))]
    return traces.write(tmp_path_factory.mktemp("chosen") / "t.parquet", traces.columns(steps, time_ns=times))


def plan(trace: Trace, *flags: object) -> dict[str, Any]:
    done = here("replayer", "plan", trace.path, *SIZES, *flags, "--json")
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_an_engine_is_its_arrangement(trace: Trace, tmp_path: Path) -> None:
    """By name, by the file that `replayer arrangements` prints, and from Python."""
    by_engine = plan(trace, "--engine", "vllm")
    assert by_engine["arrangement"] == "vllm"
    assert by_engine["rules"]["cpu"] == {"down": "on-store", "up": "copy"}
    assert "lookup" not in by_engine["rules"], "it is a condition of its own"
    own = tmp_path / "own.toml"
    own.write_text(here("replayer", "arrangements", "vllm").stdout)
    by_file = plan(trace, "--arrangement", own)
    assert (by_file["arrangement"], by_file["rules"]) == ("own.toml", by_engine["rules"])
    planned = replayer.plan(
        trace, model="tiny-1b", gpu_mem_gb=0.001, cpu_mem_gb=0.002, storage_capacity_gb=0.01,
        arrangement=load_arrangement("vllm"),
    )  # fmt: skip
    fingerprints = {by_engine["plan_fingerprint"], by_file["plan_fingerprint"], planned.summary.plan_fingerprint}
    assert len(fingerprints) == 1
    assert by_engine["plan_fingerprint"] != plan(trace)["plan_fingerprint"]


def test_the_waterfall_under_another_name_is_the_waterfall(trace: Trace, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(here("replayer", "arrangements", "waterfall").stdout)
    usual = plan(trace)
    assert (usual["arrangement"], usual["rules"]) == ("waterfall", None)
    for flags in (
        ("--arrangement", own),
        ("--arrangement", "waterfall"),
        ("--arrangement", "mlperf"),
        ("--policy", "lru"),
    ):
        assert plan(trace, *flags) == usual
    promoting = tmp_path / "promoting.toml"
    promoting.write_text('[cpu]\nup = "move"\n[nvme]\nup = "move"')
    assert plan(trace, "--arrangement", promoting) == plan(trace, "--set", "promote=true")
    assert plan(trace, "--set", "promote=true")["plan_fingerprint"] != usual["plan_fingerprint"]


def test_flags_replace_rules(trace: Trace) -> None:
    chosen = choose_arrangement("lmcache", "gpu=arc,nvme=fifo", 60, 64)
    assert (chosen.ttl_s, chosen.chunk_tokens, chosen.copies) == (60.0, 64, "inclusive")
    assert (chosen.gpu.policy, chosen.cpu.policy, chosen.nvme.policy) == ("arc", "lru", "fifo")
    assert {one.policy for one in choose_arrangement(policy="sieve").tiers().values()} == {"sieve"}
    flags = (
        "--arrangement",
        "vllm",
        "--policy",
        "fifo",
        "--set",
        "ttl=1h",
        "--set",
        "chunk_tokens=8",
        "--order",
        "trace",
    )
    rules = plan(trace, *flags)["rules"]
    assert (rules["ttl_s"], rules["chunk_tokens"], rules["gpu"]) == (3600.0, 8, {"policy": "fifo"})


def test_a_ttl_expires_and_chunks_shorten(trace: Trace) -> None:
    """Ops are a minute apart, and each object is asked for every ten: 9 minutes expire all, 11 none."""
    roomy = ("--cpu-mem-gb", "1", "--order", "trace")
    assert plan(trace, *roomy, "--set", "ttl=11m")["misses"] == 0
    expired = plan(trace, *roomy, "--set", "ttl=9m")
    assert (expired["misses"], expired["drops"]) == (20, 20)
    chunked = plan(trace, *roomy, "--set", "chunk_tokens=16")
    assert chunked["misses"] == 0
    assert chunked["peak_bytes"]["gpu"] + chunked["peak_bytes"]["cpu"] <= 10 * 32 * 24_576
    assert chunked["read_bytes"]["gpu"] + chunked["read_bytes"]["cpu"] >= 20 * 32 * 24_576
    assert chunked["recomputed_tokens"] == 20 * 8, "the rest of each object is computed at every hit"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--arrangement", "vlmm"], ["--arrangement vlmm: is unknown", "did you mean vllm?"]),
        (["--arrangement", "no/such.toml"], ["No such file", "spillover"]),
        (["--policy", "lur"], ["--policy lur: is unknown", "did you mean"]),
        (["--policy", "gpu=lru,ssd=lru"], ["'ssd' is not a tier", "gpu, cpu or nvme"]),
        (["--policy", "gpu=mru"], ["the policy 'mru' is unknown"]),
        (["--policy", "belady"], ["must know all ops", "--order trace"]),
        (
            ["--arrangement", "vllm", "--set", "promote=true"],
            ["--set promote", "several tiers may hold an object"],
        ),
        (["--set", "ttl=-1"], ["--set ttl=-1", "from 0"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else None,
)
def test_a_wrong_choice_is_refused_in_one_sentence(trace: Trace, flags: list[str], words: list[str]) -> None:
    sentence(here("replayer", "plan", trace.path, *SIZES, *flags), *words)


def test_belady_needs_an_order_that_is_known(trace: Trace) -> None:
    settings: Any = {"model": "tiny-1b", "cpu_mem_gb": 0.006, "storage_capacity_gb": 0, "policy": "belady"}
    best = replayer.plan(trace, **settings, order="trace").summary.misses
    assert best < replayer.plan(trace, **settings | {"policy": "lru"}, order="trace").summary.misses
    for more in ({}, {"order": "reference"}, {"placement": "live"}):
        with pytest.raises(InputError, match="order=trace"):
            replayer.plan(trace, **settings, **more)


def test_a_plan_names_its_rules(trace: Trace) -> None:
    def title(*flags: str) -> str:
        return here("replayer", "plan", trace.path, *SIZES, *flags).stdout.splitlines()[1]

    assert title().endswith("; arrangement waterfall")
    assert title("--set", "promote=true").endswith("; arrangement waterfall, promoting")
    assert title("--arrangement", "lmcache").endswith("; arrangement lmcache")
    changed = title("--arrangement", "lmcache", "--set", "ttl=60", "--policy", "s3fifo")
    assert changed.endswith("; arrangement lmcache, ttl_s=60, policy=s3fifo")
    mixed = choose_arrangement("aibrix-hot", "cpu=lru")
    assert describe_arrangement(mixed) == "aibrix-hot, cpu.policy=lru"


def test_the_list_names_engine_and_release() -> None:
    lines = here("replayer", "arrangements").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines[:3]] == ["name", "waterfall", "spillover"]
    (vllm,) = (line for line in lines if line.startswith("vllm "))
    source = load_arrangement("vllm").source
    assert source is not None
    assert f"{source.engine} {source.version}, {source.date}" in vllm
    sentence(here("replayer", "arrangements", "vlmm"), "vlmm: is unknown", "did you mean vllm?")
