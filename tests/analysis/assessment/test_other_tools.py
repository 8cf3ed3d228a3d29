"""Results of vLLM and LMCache next to a replay; the examples are made up, the fields are theirs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from analysis.assessment import other_tools
from analysis.assessment.other_tools import compare_with
from analysis.summary.run_summary import Summary
from replayer.schema import plain_model
from tests.support.doubts import call
from tests.support.summaries import FAILED
from tracegen.errors import InputError


def vllm(**changes: Any) -> dict[str, Any]:
    """Return what `vllm bench serve` saves with --save-result."""
    return {
        "date": "20260101-120000", "backend": "vllm", "model_id": "org/Tiny-1B-Instruct", "num_prompts": 30,
        "request_rate": "inf", "duration": 2.0, "completed": 30, "failed": 0, "total_input_tokens": 9000,
        "total_output_tokens": 5476, "output_throughput": 2738.0, "mean_ttft_ms": 40.5, "median_ttft_ms": 38.0,
        "std_ttft_ms": 2.0, "p99_ttft_ms": 1999.25,
    } | changes  # fmt: skip


MULTI_ROUND = """\
prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,finish_time
1000,20,0.25,1.0,1,1,1700000000.0,1700000001.25
1500,30,0.75,1.0,1,2,1700000002.0,1700000010.0
"""
LONG_DOC = """\
prompt_id,request_start,ttft,request_end,successful,ttft_time,is_miss
0,0.5,0.1,1.5,True,0.6,False
1,0.5,0.3,2.5,True,0.8,True
2,0.5,0.0,9.5,False,0.5,True
3,0.5,0.0,1.0,True,0.5,True
"""
BENCH_ENGINE = """\
request_id,successful,ttft,request_latency,num_input_tokens,num_output_tokens,decode_speed,submit_time,first_token_time,finish_time,error
a,True,0.2,1.0,100,7,10,50.0,50.2,51.0,
b,False,0.0,0.0,0,0,0,50.5,0.0,50.6,"refused, twice"
"""
ENGINE = {
    "config": {"model": "org/tiny-1b", "workload": "long-doc-qa", "seed": 1},
    "results": {
        "total_requests": 31, "successful_requests": 30, "failed_requests": 1, "elapsed_time": 4.0,
        "total_input_tokens": 10, "total_output_tokens": 5476, "mean_ttft_ms": 1.5, "p50_ttft_ms": 1.25,
    },
}  # fmt: skip


def read(place: Path, content: Any) -> list[other_tools.Reference]:
    path = place / "result"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return other_tools.read_references(path)


def test_results_of_vllm_bench_serve_are_read(tmp_path: Path) -> None:
    (found,) = read(tmp_path, vllm())
    assert (found.tool, found.model, found.requests, found.failed) == (
        "vllm bench serve",
        "org/Tiny-1B-Instruct",
        30,
        0,
    )
    assert (found.input_tokens, found.generated_tokens, found.duration_s) == (9000, 5476, 2.0)
    assert (found.ttft_mean_ms, found.ttft_p50_ms, found.ttft_p99_ms) == (40.5, 38.0, 1999.25)
    assert found.output_tok_s == 2738
    appended = "\n".join(json.dumps(vllm(completed=n)) for n in (1, 2, 3))
    assert [one.requests for one in read(tmp_path, appended)] == [1, 2, 3]
    assert read(tmp_path, appended)[1].name.endswith("result #2")
    early = {name: vllm()[name] for name in ("completed", "total_output_tokens", "duration")}
    (found,) = read(tmp_path, "\ufeff" + json.dumps(early))
    assert (found.model, found.ttft_p99_ms, found.input_tokens) == (None, None, None)


THROUGHPUT = {"elapsed_time": 2.0, "num_requests": 30, "total_num_tokens": 14476}
THROUGHPUT |= {"requests_per_second": 15.0, "tokens_per_second": 7238.0}


def test_results_of_vllm_bench_throughput_are_shown_but_not_compared(tmp_path: Path, ours: Summary) -> None:
    """It counts the tokens of prompts and answers together."""
    (found,) = read(tmp_path, THROUGHPUT)
    assert (found.tool, found.requests, found.failed, found.duration_s) == ("vllm bench throughput", 30, 0, 2.0)
    assert (found.total_tokens, found.total_tok_s) == (14476, 7238.0)
    assert (found.generated_tokens, found.output_tok_s, found.model) == (None, None, None)
    assert compare_with(ours, found).reasons == ["their generated tokens are not known"]
    del THROUGHPUT["tokens_per_second"]
    (found,) = read(tmp_path, THROUGHPUT)
    assert (found.total_tokens, found.total_tok_s) == (14476, None)


def test_results_of_lmcache_are_read(tmp_path: Path) -> None:
    (found,) = read(tmp_path, MULTI_ROUND)
    assert (found.tool, found.requests, found.failed) == ("LMCache multi-round-qa", 2, 0)
    assert (found.input_tokens, found.generated_tokens, found.duration_s, found.output_tok_s) == (2500, 50, 10.0, 5.0)
    # Of 250 and 750 ms: the mean, the middle, and 99% of the way.
    assert (found.ttft_mean_ms, found.ttft_p50_ms) == (500, 500)
    assert found.ttft_p99_ms == pytest.approx(745)

    (found,) = read(tmp_path, LONG_DOC)
    assert (found.tool, found.requests, found.failed) == ("LMCache long_doc_qa", 2, 2)
    assert (found.duration_s, found.generated_tokens, found.output_tok_s) == (2.0, None, None)
    assert found.ttft_mean_ms == pytest.approx(200)
    (found,) = read(tmp_path, LONG_DOC.replace(",successful", "").replace("True,", "").replace("False,0.5", "0.5"))
    assert (found.requests, found.failed) == (2, 2)  # an early release: no token, no success

    (found,) = read(tmp_path, BENCH_ENGINE)
    assert (found.tool, found.requests, found.failed) == ("lmcache bench engine", 1, 1)
    assert (found.input_tokens, found.generated_tokens, found.duration_s) == (100, 7, 1.0)
    (found,) = read(tmp_path, ENGINE)
    assert (found.tool, found.model, found.requests, found.failed) == ("lmcache bench engine", "org/tiny-1b", 30, 1)
    assert (found.generated_tokens, found.duration_s, found.ttft_p50_ms, found.ttft_p99_ms) == (5476, 4.0, 1.25, None)


UNKNOWN = "contains no known result"
REFUSED: list[tuple[Any, str]] = [
    ("", f"{UNKNOWN}; pass a file that one of these wrote: vllm bench serve, vllm bench throughput, lmc"),
    ("just a note", UNKNOWN),
    ("a,b\n1,2\n", UNKNOWN),
    ("{}", UNKNOWN),
    ('{"config": 1, "results": []}', UNKNOWN),
    (MULTI_ROUND.splitlines()[0], UNKNOWN),
    ("[1, 2]", "neither JSON nor CSV"),
    ('{"completed": 1', "neither JSON nor CSV"),
    ("[" * 100_000, "neither JSON nor CSV"),
    ('a,"b\n', "neither JSON nor CSV"),
    (MULTI_ROUND.replace("0.75", "soon"), "#2: Expected `float`, got `str` - at `ttft`"),
    (MULTI_ROUND.replace("0.75", "nan"), "#2: Expected `float` >= 0.0 - at `ttft`"),
    (MULTI_ROUND.replace("1500", "-3"), "#2: Expected `float` >= 0.0 - at `prompt_tokens`"),
    (MULTI_ROUND + "1,2\n", "#3: Object missing required field `ttft`"),
    (vllm(duration=float("nan")), "neither JSON nor CSV"),
    (vllm(completed=True), "`completed`"),
    (vllm(completed=-1), "`completed`"),
    (vllm(total_output_tokens=[1]), "`total_output_tokens`"),
    (vllm(model_id={"a": 1}), "`model_id`"),
]


@pytest.mark.parametrize(("content", "reason"), REFUSED)
def test_files_without_results_are_refused_in_one_sentence(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, content)
    assert reason in str(refused.value)
    assert str(refused.value.subject).startswith(str(tmp_path / "result"))


def test_folders_and_binary_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_tools, "MOST_BYTES", 1 << 20)
    (tmp_path / "binary").write_bytes(os.urandom(1000) + b"\xff")
    reasons = {"": "Is a directory", "none": "No such file", "binary": "neither JSON nor CSV", "/dev/zero": "larger"}
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=reason):
            other_tools.read_references(tmp_path / name)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", True),
        ("llama3.1-70b-instruct", "/models/Llama_3.1_70B/", True),
        ("llama3.1-8b", "meta-llama/Llama-3-8B", False),
        ("llama3.1-8b", "RedHat/Llama-3.1-8B-Instruct-FP8", False),
    ],
)
def test_names_of_one_model_are_recognised(ours: str, theirs: str, same: bool) -> None:
    assert (plain_model(ours) == plain_model(theirs)) is same


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_id": "org/llama"}, "our model is tiny-1b, theirs org/llama"),
        ({"completed": 29}, "our requests are 30, theirs 29"),
        ({"failed": 2}, "2 of their requests failed"),
        ({"total_output_tokens": 5477}, "our generated tokens are 5,476, theirs 5,477"),
        ({"duration": 0}, "one of them generated nothing, or took no time"),
    ],
)
def test_different_work_is_not_comparable(ours: Summary, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    found = compare_with(ours, read(tmp_path, vllm(**changes))[0])
    assert (found.difference, found.reasons) == (None, [reason])
    assert found.sentence == f"NOT COMPARABLE with {tmp_path}/result: {reason}"


def test_an_invalid_run_is_not_comparable(ours: Summary, tmp_path: Path) -> None:
    found = compare_with(ours.with_doubts(after=[FAILED]), read(tmp_path, vllm())[0])
    assert found.reasons == ["our run is not VALID"]


@pytest.mark.parametrize(("share", "matches"), [(0.049, True), (-0.049, True), (0.051, False), (-0.4, False)])
def test_runs_within_five_percent_match(ours: Summary, tmp_path: Path, share: float, matches: bool) -> None:
    theirs = (ours.metrics["wall_clock_tok_s"] or 0) / (1 + share)
    found = compare_with(ours, read(tmp_path, vllm(duration=5476 / theirs))[0])
    assert found.difference == pytest.approx(share, abs=1e-9)
    assert found.sentence.startswith("COMPARABLE")
    assert (f"matches: {share:+.1%}" in found.sentence) == matches


def test_both_results_are_shown(replay: Path, ours: Summary, tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm()))
    (tmp_path / "rounds.csv").write_text(MULTI_ROUND)
    found = call("assess", replay, "--reference", path, "--reference", tmp_path / "rounds.csv", "--json").stdout
    mine, theirs, rounds = json.loads(found)["tables"][1]["rows"]
    assert (mine["requests"], mine["output tok/s"]) == (30, ours.metrics["wall_clock_tok_s"])
    assert (mine["TTFB | TTFT P99 ms *"], theirs["TTFB | TTFT P99 ms *"]) == (ours.metrics["ttfb_p99_ms"], 1999.25)
    assert (theirs["result"], theirs["model"], theirs["output tok/s"]) == (
        "vllm bench serve",
        "org/Tiny-1B-Instruct",
        2738,
    )
    assert rounds["model"] is None
    assert [len(one["reasons"]) for one in json.loads(found)["references"]] == [0, 2]
    assert "theirs includes queueing" in call("assess", replay, "--reference", path).stdout
