"""Results of vLLM and LMCache beside a replay; the examples are made up, the fields are theirs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from analysis.assessment import other_tools as reference
from analysis.summary.run_summary import Summary
from tests.analysis.assessment.assessing import call, refusal
from tests.support.summaries import FAILED


def vllm(**changes: Any) -> dict[str, Any]:
    """As `vllm bench serve` saves with --save-result."""
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


def of(place: Path, content: Any) -> list[reference.Reference]:
    path = place / "result"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return reference.read(path)


def test_what_vllm_saves(tmp_path: Path) -> None:
    (found,) = of(tmp_path, vllm())
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
    assert [one.requests for one in of(tmp_path, appended)] == [1, 2, 3]
    assert of(tmp_path, appended)[1].name.endswith("result #2")
    early = {name: vllm()[name] for name in ("completed", "total_output_tokens", "duration")}
    (found,) = of(tmp_path, "\ufeff" + json.dumps(early))
    assert (found.model, found.ttft_p99_ms, found.input_tokens) == (None, None, None)


THROUGHPUT = {"elapsed_time": 2.0, "num_requests": 30, "total_num_tokens": 14476}
THROUGHPUT |= {"requests_per_second": 15.0, "tokens_per_second": 7238.0}


def test_what_vllm_bench_throughput_saves(tmp_path: Path, ours: Summary) -> None:
    """Its tokens are those of prompts and answers: they stand beside a run, and nothing is said to match."""
    (found,) = of(tmp_path, THROUGHPUT)
    assert (found.tool, found.requests, found.failed, found.duration_s) == ("vllm bench throughput", 30, 0, 2.0)
    assert (found.total_tokens, found.total_tok_s) == (14476, 7238.0)
    assert (found.generated_tokens, found.output_tok_s, found.model) == (None, None, None)
    told = reference.beside(ours, found)
    assert (told["comparable"], told["matches"]) == (False, None)
    assert told["reasons"] == ["their generated tokens are not known"]
    shown = reference.lines("run", told)
    assert ["input", "+", "output", "tok/s", "-", "7,238"] in [line.split() for line in shown]
    (found,) = of(tmp_path, {name: value for name, value in THROUGHPUT.items() if not name.endswith("_second")})
    assert (found.total_tokens, found.total_tok_s) == (14476, None)
    assert "output tok/s" in "\n".join(reference.lines("run", reference.beside(ours, of(tmp_path, vllm())[0])))


def test_what_lmcache_saves(tmp_path: Path) -> None:
    (found,) = of(tmp_path, MULTI_ROUND)
    assert (found.tool, found.requests, found.failed) == ("LMCache multi-round-qa", 2, 0)
    assert (found.input_tokens, found.generated_tokens, found.duration_s, found.output_tok_s) == (2500, 50, 10.0, 5.0)
    # Of 250 and 750 ms: the mean, the middle, and 99% of the way.
    assert (found.ttft_mean_ms, found.ttft_p50_ms) == (500, 500)
    assert found.ttft_p99_ms == pytest.approx(745)

    (found,) = of(tmp_path, LONG_DOC)
    assert (found.tool, found.requests, found.failed) == ("LMCache long_doc_qa", 2, 2)
    assert (found.duration_s, found.generated_tokens, found.output_tok_s) == (2.0, None, None)
    assert found.ttft_mean_ms == pytest.approx(200)
    (found,) = of(tmp_path, LONG_DOC.replace(",successful", "").replace("True,", "").replace("False,0.5", "0.5"))
    assert (found.requests, found.failed) == (2, 2)  # an early release: no token, no success

    (found,) = of(tmp_path, BENCH_ENGINE)
    assert (found.tool, found.requests, found.failed) == ("lmcache bench engine", 1, 1)
    assert (found.input_tokens, found.generated_tokens, found.duration_s) == (100, 7, 1.0)
    (found,) = of(tmp_path, ENGINE)
    assert (found.tool, found.model, found.requests, found.failed) == ("lmcache bench engine", "org/tiny-1b", 30, 1)
    assert (found.generated_tokens, found.duration_s, found.ttft_p50_ms, found.ttft_p99_ms) == (5476, 4.0, 1.25, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "",
            "holds no result that is known; expected what one of these writes: vllm bench serve, vllm bench throughput, lmc",
        ),
        ("\n\n", "holds no result that is known"),
        ("just a note", "holds no result that is known"),
        ("a,b\n1,2\n", "holds no result that is known"),
        ("[1, 2]", "holds no result that is known"),
        ("{}", "holds no result that is known"),
        ('{"config": 1, "results": []}', "holds no result that is known"),
        ('{"completed": 1', "is neither JSON nor CSV"),
        ("[" * 100_000, "is neither JSON nor CSV"),
        ('a,"b\n', "is neither JSON nor CSV"),
        (MULTI_ROUND.splitlines()[0], "holds no result that is known"),
        (MULTI_ROUND.replace("0.75", "soon"), "line 3: ttft is 'soon', not a number"),
        (MULTI_ROUND.replace("0.75", "nan"), "line 3: ttft is 'nan', not a number"),
        (MULTI_ROUND.replace("0.75", ""), "line 3: ttft is '', not a number"),
        (MULTI_ROUND.replace("1500", "-3"), "line 3: prompt_tokens is '-3.0', not a number"),
        (MULTI_ROUND + "1,2\n", "line 4: ttft is 'None', not a number"),
        (vllm(duration=float("nan")), "duration is 'nan', not a number"),
        (vllm(duration=float("inf")), "duration is 'inf', not a number"),
        (vllm(completed=True), "completed is 'True', not a number"),
        (vllm(completed="30"), "completed is '30', not a number"),
        (vllm(completed=-1), "completed is '-1', not a number"),
        (vllm(total_output_tokens=None), "total_output_tokens is 'None', not a number"),
        (vllm(total_output_tokens=10**400), "total_output_tokens is '1000"),
        (vllm(total_output_tokens=[1]), "total_output_tokens is '[1]', not a number"),
        (vllm(model_id={"a": 1}), "model_id is \"{'a': 1}\", not a name"),
        (vllm(model_id="\x1b[2J"), "model_id is '\\x1b[2J', not a name"),
    ],
)
def test_files_that_are_no_results_are_refused_in_one_sentence(
    replay: Path, tmp_path: Path, content: Any, reason: str
) -> None:
    path = tmp_path / "result"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    message = refusal(replay, "--reference", path)
    assert reason in message
    assert message.startswith(f"--reference {path}")
    assert len(message) < 400 + len(str(path))


def test_places_that_hold_no_text_are_refused(replay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Is a directory" in refusal(replay, "--reference", tmp_path)
    assert "No such file" in refusal(replay, "--reference", tmp_path / "none")
    (tmp_path / "binary").write_bytes(os.urandom(1000) + b"\xff")
    assert "is neither JSON nor CSV ('utf-8' codec" in refusal(replay, "--reference", tmp_path / "binary")
    monkeypatch.setattr(reference, "MOST_BYTES", 1 << 20)
    assert "is larger than 1 MiB" in refusal(replay, "--reference", "/dev/zero")


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", True),
        ("llama3.1-8b", "meta-llama/Meta-Llama-3.1-8B", True),
        ("llama3.1-70b-instruct", "/models/Llama_3.1_70B/", True),
        ("llama3.1-8b", "meta-llama/Llama-3.1-70B", False),
        ("llama3.1-8b", "meta-llama/Llama-3-8B", False),
        ("llama3.1-8b", "RedHat/Llama-3.1-8B-Instruct-FP8", False),
        ("qwen3-32b", "Qwen/Qwen3-32B", True),
        ("gpt-oss-20b", "openai/gpt-oss-120b", False),
    ],
)
def test_names_of_models(ours: str, theirs: str, same: bool) -> None:
    assert reference.same_model(ours, theirs) is same


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
def test_unlike_work_is_not_comparable(ours: Summary, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    found = reference.beside(ours, of(tmp_path, vllm(**changes))[0])
    assert (found["comparable"], found["matches"], found["difference"]) == (False, None, None)
    assert found["reasons"] == [reason]
    assert reference.lines("run1", found)[-1] == f"NOT COMPARABLE: run1 with {tmp_path}/result: {reason}."


def test_a_run_that_is_not_valid_is_not_comparable(ours: Summary, tmp_path: Path) -> None:
    found = reference.beside(ours.with_doubts(after=[FAILED]), of(tmp_path, vllm())[0])
    assert found["reasons"] == ["our run is not VALID"]


def test_tokens_that_are_not_counted_are_not_comparable(ours: Summary, tmp_path: Path) -> None:
    reasons = reference.beside(ours, of(tmp_path, LONG_DOC)[0])["reasons"]
    assert reasons == [
        "2 of their requests failed",
        "our requests are 30, theirs 2",
        "their generated tokens are not known",
    ]


@pytest.mark.parametrize(
    ("share", "matches"), [(0.0, True), (0.049, True), (-0.049, True), (0.051, False), (-0.4, False)]
)
def test_matched_runs_lie_within_five_percent(ours: Summary, tmp_path: Path, share: float, matches: bool) -> None:
    theirs = (ours.metrics["wall_clock_tok_s"] or 0) / (1 + share)
    found = reference.beside(ours, of(tmp_path, vllm(duration=5476 / theirs))[0])
    assert found["comparable"]
    assert found["difference"] == pytest.approx(share, abs=1e-9)
    assert found["matches"] is matches
    said = f"output tok/s matches: {share:+.1%} (within ±5%)" if matches else f"output tok/s differs by {share:+.1%}"
    assert said in reference.lines("run1", found)[-1]


def test_a_file_that_names_no_model_is_comparable_and_says_so(ours: Summary, tmp_path: Path) -> None:
    found = reference.beside(ours, of(tmp_path, vllm(model_id=None))[0])
    assert found["comparable"]
    assert reference.lines("run1", found)[-1].endswith("; its file names no model.")


def test_both_sides_are_shown(replay: Path, ours: Summary, tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm()))
    (tmp_path / "rounds.csv").write_text(MULTI_ROUND)
    shown = call(replay, "--reference", path, "--reference", tmp_path / "rounds.csv").stdout
    block = shown[shown.index(f"{replay} beside {path}") :].splitlines()
    assert block[1].split() == ["ours", "vllm", "bench", "serve"]
    table = {line[2:26].strip(): line[26:].split() for line in block[2:11]}
    assert table["model"] == ["tiny-1b", "org/Tiny-1B-Instruct"]
    assert table["requests"] == ["30", "30"]
    assert table["input tokens"] == ["-", "9,000"]
    assert table["generated tokens"] == ["5,476", "5,476"]
    assert table["TTFB | TTFT P99 ms *"] == [reference.number(ours.metrics["ttfb_p99_ms"]), "1,999"]
    assert "unlike: ours is storage alone" in block[11]
    assert block[12].startswith(f"COMPARABLE: {replay} with {path}: output tok/s ")
    assert "NOT COMPARABLE" in shown.splitlines()[-1]
    found = json.loads(call(replay, "--reference", path, "--json").stdout)
    (one,) = found["references"]
    assert (one["theirs"]["output_tok_s"], one["ours"]["output_tok_s"]) == (2738.0, ours.metrics["wall_clock_tok_s"])
