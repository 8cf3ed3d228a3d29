"""What a plan says that a replay needs, and how long it takes."""

import re
from pathlib import Path

import pytest

from replayer.machine.reserve import Reserve
from replayer.planning.pace import Span
from tests.replayer.places.replays import MIB, Lines, replayed
from tests.support import traces
from tests.support.command_line import Run
from tests.support.mounts import tmpfs
from tracegen.schema import Trace


@pytest.mark.parametrize(
    ("flags", "least_s"),
    [("--pace asap", []), ("--pace open", ["40"]), ("--pace closed", ["40"]), ("--pace open --speedup 4", ["10"])],
)
def test_a_plan_says_what_a_replay_needs(run: Run, tmp_path: Path, flags: str, least_s: list[str]) -> None:
    steps = [("w", key, 64) for key in range(3)]
    batch = traces.columns(steps, [0, 1, 2], time_ns=[0, 20 * 10**9, 40 * 10**9])
    trace = traces.write(tmp_path / "t.parquet", batch).path
    output = run("replayer", "plan", trace, "--model", "tiny-1b", *flags.split()).stdout
    assert re.findall(r"time: at least (\d+) s", output) == least_s
    assert re.findall(r"disk: up to ([\d.]+ MiB) at a time; ([\d.]+ MiB) to write", output) == [
        ("4.512 MiB", "4.5 MiB")
    ]


def test_a_closed_loop_takes_its_users_pauses(run: Run, tmp_path: Path) -> None:
    steps = [("w", key, 64) for key in range(4)]
    users = {"user_id": [0, 1, 0, 0], "session_id": [0, 1, 0, 0], "turn": [1, 1, 2, 3]}
    pauses = [0, 0, 20 * 10**9, 10 * 10**9]
    batch = traces.columns(
        steps, [0, 1, 2, 3], time_ns=[10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9], think_ns=pauses, **users
    )
    trace = traces.write(tmp_path / "t.parquet", batch).path
    output = run("replayer", "plan", trace, "--model", "tiny-1b", "--pace", "closed").stdout
    assert "time: at least 31 s" in output


@pytest.mark.parametrize(
    ("span", "seconds"),
    [(Span(300, 30), ["300", "30"]), (Span(300, 30, duration_by="recipe"), ["300", "30"]), (Span(300), ["300"])],
)
def test_a_cut_run_says_when_it_ends(trace: Trace, tmp_path: Path, span: Span, seconds: list[str]) -> None:
    console = Lines()
    replayed(trace, tmp_path, console=console, span=span)
    (line,) = (line for line in console.lines if line.startswith("time: cut"))
    assert re.findall(r"(\d+) s\b", line) == seconds
    assert ("recipe" in line) == (span.duration_by == "recipe")


def test_a_cut_run_says_that_the_disk_holds_only_a_part(trace: Trace, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "2m") as place:
        info = replayed(trace, tmp_path, cache_dir=place, span=Span(300, 30), reserve=Reserve(bytes=MIB))
    assert "little room" in {warning["kind"] for warning in info["warnings"]}
