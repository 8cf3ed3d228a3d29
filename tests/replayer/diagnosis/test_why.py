"""`replayer why`, and the findings that `replayer plan` ends with."""

import json
from pathlib import Path

import pytest

from replayer.diagnosis.finding import format_gib
from tests.replayer.diagnosis.cases import loop, trace
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


def test_why_names_a_reason_with_its_counts_and_a_flag(path: Path) -> None:
    done = here("replayer", "why", path, *EQUAL)
    assert done.returncode == 0, done.stderr
    assert "60 reads: 0 hits (0 in gpu, 0 in cpu)" in done.stdout
    assert "  no larger than the faster tier: cpu has 8.2 MiB of room and gpu 8.2 MiB;" in done.stdout
    assert "--cpu-mem-gb 0.0368: 75.0% of prompt tokens hit in" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines()[1:])


def test_plan_ends_with_what_why_finds(path: Path) -> None:
    why = json.loads(here("replayer", "why", path, *EQUAL, "--json").stdout)
    plan = json.loads(here("replayer", "plan", path, *EQUAL, "--json").stdout)
    assert why["findings"] == plan["findings"]
    assert why["plan_fingerprint"] == plan["plan_fingerprint"]
    assert why["findings"][0]["cause"] == "no larger than the faster tier"
    assert set(why["findings"][0]) == {"cause", "tiers", "problem", "remedy", "counts", "text"}
    shown = here("replayer", "plan", path, *EQUAL).stdout
    end = shown[shown.index("  why a tier brings little:") :].split()
    assert " ".join(end).endswith(" ".join(why["findings"][-1]["text"].split()))


def test_the_remedy_helps(path: Path) -> None:
    """With the room that the finding names, cpu holds what gpu lacks, and as much hits as it says."""
    roomy = [*EQUAL, "--cpu-mem-gb", "0.0368"]
    healthy = here("replayer", "why", path, *roomy)
    assert "60 hits (0 in gpu, 60 in cpu)" in healthy.stdout
    assert "no check finds a reason why a tier brings little" in healthy.stdout
    assert "why a tier brings little" not in here("replayer", "plan", path, *roomy).stdout
    assert json.loads(here("replayer", "plan", path, *roomy, "--json").stdout)["findings"] == []


@pytest.mark.parametrize("size", [1, 999, 10**6, 5 * 2**29, 80 * 10**9, 123_456_789_012])
def test_room_is_rounded_up(size: int) -> None:
    assert size <= float(format_gib(size)) * 2**30 <= 1.011 * size
