"""What people read first: hit rates with first touches, parts of a request's time, wear at whose pace, who is to blame."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.cli import main
from analysis.doubts import checks as doubts
from analysis.doubts.evidence import Evidence
from analysis.log.targets import Targets
from analysis.metrics.headlines import SUMMARY
from analysis.report.answer import list_figures
from analysis.report.systems import gather
from analysis.runs.opening import open_run
from analysis.summary.summary import summarise
from replayer.schema import WAITS
from tests.analysis import metric_oracle
from tests.support.logs import make_rows, samples, write_run
from tests.support.paths import ROOT
from tests.support.summaries import show

S = 10**9


def row(number: int, **changes: Any) -> dict[str, Any]:
    """A store of a request's prompt, done in a second, in a session of its own."""
    at = number * S
    return (
        make_rows(0, 1)[0]
        | {
            "op_id": number, "position": number, "seq": 0, "request_id": number, "session_id": number, "phase": "prefill",
            "op": "write", "source": "user", "move": "store", "status": "ok", "from_tier": None, "to_tier": "nvme",
            "tokens": 512, "new_tokens": 1, "size_bytes": 1 << 20, "due_ns": at, "ready_ns": at, "start_ns": at,
            "end_ns": at + S, "read_ns": 0, "write_ns": S, "device_read_ns": 0, "device_write_ns": S, "verify_ns": 0,
            "window_ns": 0, "order_ns": 0, "waited_for": None,
        }
        | changes
    )  # fmt: skip


HIT = {
    "op": "read", "source": "multi_turn", "move": "hit", "from_tier": "nvme", "to_tier": None, "read_ns": S,
    "write_ns": 0, "device_read_ns": S, "device_write_ns": 0,
}  # fmt: skip


def line_of(text: str, label: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return found.strip().removeprefix(label).split()


# Hit rates


def test_a_block_trace_leads_with_the_share_of_its_prompts(tmp_path: Path) -> None:
    """19 blocks of 20 are touched for the first time: 5% of the prompt, though each re-read hits."""
    rows = [row(n) for n in range(19)] + [row(19, **HIT)]
    found = summarise(write_run(tmp_path / "run", rows))
    text = show(found)
    assert line_of(text, "prompt tokens from the cache, first touches included") == ["5.0%"]
    assert line_of(text, "tokens touched first (compulsory misses)") == [f"{19 * 512:,}"]
    assert line_of(text, "re-reads that hit (hits / reads), first touches left out") == ["100.0%"]
    assert text.index("prompt tokens") < text.index("re-reads that hit")
    figure = list_figures(gather([tmp_path / "run"], Targets()))[3]
    assert (figure.name, figure.value) == ("hit_rate_prompt_tokens", 0.05)


def test_documents_that_are_ingested_are_no_prompt(tmp_path: Path) -> None:
    rows = [row(0, source="rag"), row(1), row(2, **HIT | {"source": "rag"})]
    found = summarise(write_run(tmp_path / "run", rows)).to_json()
    assert (found["prompt_tokens"], found["compulsory_tokens"], found["hit_rate_prompt"]) == (1024, 512, 0.5)
    assert found["hit_rate_sessions"] == 0.5, "the document's session has none"


# Parts of a request's time


def test_the_parts_of_a_requests_time_add_up(tmp_path: Path) -> None:
    rows = [row(n, **HIT, request_id=n // 3, start_ns=n * S + S // 4, end_ns=(n + 1) * S + S // 4) for n in range(9)]
    found = summarise(write_run(tmp_path / "run", rows, token_ms=100.0)).metrics
    parts = [entry.strip(" +") for section in SUMMARY.values() for entry in section if "  + " in entry]
    assert len(parts) == 5
    assert sum(found[part] or 0.0 for part in parts) == pytest.approx(found["e2e_mean_ms"])


def test_pace_asap_shows_no_part_of_nothing(tmp_path: Path) -> None:
    text = show(summarise(write_run(tmp_path / "run", [row(0), row(1)], token_ms=1.0, pace="asap")))
    assert "generation" not in text


# Wear


def test_wear_says_at_whose_pace(tmp_path: Path) -> None:
    assert "at the replay's pace" in show(summarise(write_run(tmp_path / "run", [row(0), row(1)])))


# What runs are held against


def summary_of(place: Path, *flags: str) -> Any:
    return CliRunner().invoke(main, ["summary", str(place), "--json", *flags])


def test_every_tier_has_an_efficiency(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", [row(0, to_tier="cpu"), row(1), row(2, **HIT)])
    flags = ["--tier-gib-s", "cpu=1,0.5", "--tier-gib-s", "nvme=0.25,0.125", "--drive-tb", "2"]
    found = json.loads(summary_of(place, *flags).stdout)
    assert found["nvme_read_efficiency"] == pytest.approx(1 / 1024 / 0.25)
    assert found["gpu_read_efficiency"] is None


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--tier-gib-s", "dram=1,2"], "there is no tier 'dram'; name one of gpu, cpu, nvme"),
        (["--tier-gib-s", "cpu=1"], "not two numbers; give those of reading and writing"),
        (["--tier-gib-s", "cpu=1,none"], "'none' is not a number"),
        (["--tier-gib-s", "nvme=1,2", "--tier-gib-s", "nvme=1,2"], "the bandwidth of nvme is given twice"),
        (["--drive-tb", "0"], "0 must be at least 0.000001 TB"),
    ],
)
def test_wrong_targets_are_refused(tmp_path: Path, flags: list[str], sentence: str) -> None:
    done = summary_of(tmp_path, *flags)
    assert done.exit_code == 2
    assert sentence in done.stderr


# Who is to blame


def waiting(place: Path, busy: float) -> Path:
    """Ten hits in memory, that wait 9 s each for a core, while the machine's two cores are busy with something."""
    hit = HIT | {"from_tier": "cpu", "due_ns": 0, "ready_ns": 0}
    rows = [row(n, **hit, start_ns=9 * S, end_ns=10 * S) for n in range(10)]
    counted = [one | {"process_cpu": 0.3, "system_cpu": 2 * busy} for one in samples(1, 10, counted=False)]
    return write_run(place, rows, device=counted, workers=50, machine={"host": "vm", "cores": 2})


@pytest.mark.parametrize(("busy", "bottleneck"), [(0.95, "cpu"), (0.5, "queue")])
def test_moves_that_wait_for_a_core_are_held_back_by_the_cpu(tmp_path: Path, busy: float, bottleneck: str) -> None:
    place = waiting(tmp_path / "run", busy)
    found = summarise(place).to_json()
    assert found["system_cpu_share"] == pytest.approx(busy, rel=0.01)
    assert found["cpu_share"] == pytest.approx(0.15, rel=0.01)
    assert found["bottleneck"] == metric_oracle.summary(metric_oracle.read(place))["bottleneck"] == bottleneck


@pytest.mark.parametrize("cause", ["order", "window"])
def test_only_a_window_that_holds_ops_back_is_to_be_widened(cause: str) -> None:
    values = {f"{wait}_wait_share": 0.0 for wait in (*WAITS, "order", "window")}
    values |= {"plan_wait_share": 0.5}
    values |= {f"{cause}_wait_share": 0.5}
    (doubt,) = doubts._check_plan_wait(Evidence(open_run(ROOT / "tests" / "data" / "run"), values))
    assert ("widen it" in doubt.advice) == (cause == "window")
