"""`replayer why`, and the findings that `replayer plan` ends with."""

import json
from pathlib import Path
from typing import Any

import pytest

from replayer.questions.evidence import name_gib
from tests.replayer.questions.cases import loop, trace
from tests.support import traces
from tests.support.command_line import here

MODEL = ("--model", "tiny-1b", "--order", "trace")
# 20 objects of 1 MiB and a half in turn; gpu and cpu have room for five each.
EQUAL = (*MODEL, "--gpu-mem-gb", "0.01", "--cpu-mem-gb", "0.01", "--storage-capacity-gb", "0", "--arrangement", "vllm")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("why") / "loop.parquet"
    traces.write(found, trace(loop(20, 3), tokens=64))
    return found


def found(command: str, *words: object) -> Any:
    done = here("replayer", command, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_why_names_a_reason_with_its_counts_and_a_flag(path: Path) -> None:
    content = found("why", path, *EQUAL)
    assert (content["reads"], content["hits"]) == (60, {"gpu": 0, "cpu": 0, "nvme": 0})
    (finding,) = (one for one in content["findings"] if one["cause"] == "no larger than the faster tier")
    assert finding["tiers"] == ["cpu"]
    assert "--cpu-mem-gb 0.0368: 75.0% of prompt tokens hit in" in finding["text"]
    assert finding["text"] in here("replayer", "why", path, *EQUAL).stdout


def test_plan_ends_with_what_why_finds(path: Path) -> None:
    why, plan = found("why", path, *EQUAL), found("plan", path, *EQUAL)
    assert why["findings"] == plan["findings"]
    assert why["plan_fingerprint"] == plan["plan_fingerprint"]
    assert set(why["findings"][0]) == {"cause", "tiers", "problem", "remedy", "counts", "text"}
    assert why["findings"][-1]["text"] in here("replayer", "plan", path, *EQUAL).stdout


def test_the_remedy_helps(path: Path) -> None:
    """With the room that the finding names, cpu holds what gpu lacks, and as much hits as it says."""
    content = found("why", path, *EQUAL, "--cpu-mem-gb", "0.0368")
    assert content["hits"]["cpu"] == 60
    assert content["hit_rate_tokens"] == 0.75
    assert content["findings"] == []


@pytest.mark.parametrize("size", [1, 999, 10**6, 5 * 2**29, 80 * 10**9, 123_456_789_012])
def test_room_is_rounded_up(size: int) -> None:
    assert size <= float(name_gib(size)) * 2**30 <= 1.011 * size
    assert name_gib(1049 * 2**30) == "1050", "no exponents below a million GiB"
