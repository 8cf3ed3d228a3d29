"""Results of vLLM and LMCache next to a replay; the examples are made up, the fields are theirs."""

import json
import os
import re
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


READ: dict[str, tuple[Any, dict[str, Any]]] = {
    "vllm bench serve": (
        vllm(),
        {"model": "org/Tiny-1B-Instruct", "requests": 30, "failed": 0, "input_tokens": 9000, "generated_tokens": 5476,
         "duration_s": 2.0, "ttft_mean_ms": 40.5, "ttft_p50_ms": 38.0, "ttft_p99_ms": 1999.25, "output_tok_s": 2738},
    ),
    "vllm bench serve of an early release": (
        "\ufeff" + json.dumps({name: vllm()[name] for name in ("completed", "total_output_tokens", "duration")}),
        {"model": None, "requests": 30, "ttft_p99_ms": None, "input_tokens": None},
    ),
    "lmcache bench engine": (
        ENGINE,
        {"model": "org/tiny-1b", "requests": 30, "failed": 1, "generated_tokens": 5476, "duration_s": 4.0,
         "ttft_p50_ms": 1.25, "ttft_p99_ms": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", READ)
def test_results_are_read(tmp_path: Path, tool: str) -> None:
    content, expected = READ[tool]
    (found,) = read(tmp_path, content)
    assert tool.startswith(found.tool)
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)


def test_appended_results_are_read_one_by_one(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join(json.dumps(vllm(completed=n)) for n in (1, 2, 3)))
    assert [one.requests for one in found] == [1, 2, 3]
    assert found[1].name.endswith("result #2")


UNKNOWN = "contains no known result"
REFUSED: list[tuple[Any, str]] = [
    ('{"a": 1}', UNKNOWN),
    ("", UNKNOWN),
    ("[" * 100_000, "is not JSON"),
    ("a,b\n1,2\n", "is not JSON"),
    (vllm(completed=-1), "`completed`"),
    (vllm(duration="2"), "Expected `float`, got `str` - at `duration`"),
]


@pytest.mark.parametrize(("content", "reason"), REFUSED)
def test_files_without_results_are_refused(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)) as refused:
        read(tmp_path, content)
    assert str(refused.value.subject).startswith(str(tmp_path / "result"))


def test_folders_and_binary_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_tools, "MOST_BYTES", 1 << 20)
    (tmp_path / "binary").write_bytes(os.urandom(1000) + b"\xff")
    reasons = {"": "Is a directory", "none": "No such file", "binary": "it is not text", "/dev/zero": "larger"}
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


def test_an_invalid_run_is_not_comparable(ours: Summary, tmp_path: Path) -> None:
    found = compare_with(ours.with_doubts(after=[FAILED]), read(tmp_path, vllm())[0])
    assert found.reasons == ["our run is not VALID"]


@pytest.mark.parametrize(("share", "matches"), [(0.049, True), (-0.051, False)])
def test_runs_within_five_percent_match(ours: Summary, tmp_path: Path, share: float, matches: bool) -> None:
    theirs = (ours.metrics["wall_clock_tok_s"] or 0) / (1 + share)
    found = compare_with(ours, read(tmp_path, vllm(duration=5476 / theirs))[0])
    assert found.difference == pytest.approx(share, abs=1e-9)
    assert found.sentence.startswith("COMPARABLE")
    assert (f"matches: {share:+.1%}" in found.sentence) == matches


def test_both_results_are_shown(replay: Path, ours: Summary, tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(vllm()))
    found = json.loads(call("assess", replay, "--reference", path, "--json").stdout)
    mine, theirs = found["tables"][1]["rows"]
    assert (mine["requests"], mine["output tok/s"]) == (30, ours.metrics["wall_clock_tok_s"])
    assert (mine["TTFB | TTFT P99 ms *"], theirs["TTFB | TTFT P99 ms *"]) == (ours.metrics["ttfb_p99_ms"], 1999.25)
    assert (theirs["model"], theirs["output tok/s"]) == ("org/Tiny-1B-Instruct", 2738)
    assert found["references"][0]["reasons"] == []
