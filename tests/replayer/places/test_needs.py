"""What a plan says that a replay needs, and how long it takes."""

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
    ("flags", "line"),
    [
        (
            ["--pace", "asap"],
            "time: as long as the tiers take; a duration would limit it",
        ),
        (
            ["--pace", "open"],
            "time: at least 40 s (times and pauses of the trace at pace open), as long as the tiers take",
        ),
        (
            ["--pace", "closed"],
            "time: at least 40 s (times and pauses of the trace at pace closed), as long as the tiers take",
        ),
        (["--pace", "open", "--speedup", "4"], "time: at least 10 s (times and pauses of the trace at pace open)"),
    ],
)
def test_a_plan_says_what_a_replay_needs(run: Run, tmp_path: Path, flags: list[str], line: str) -> None:
    steps = [("w", key, 64) for key in range(3)]
    batch = traces.columns(steps, [0, 1, 2], time_ns=[0, 20 * 10**9, 40 * 10**9])
    trace = traces.write(tmp_path / "t.parquet", batch).path
    output = run("replayer", "plan", trace, "--model", "tiny-1b", *flags).stdout
    assert f"  {line}" in output
    assert "  disk: up to 4.5 MiB at a time; 4.5 MiB to write and nothing to read in the whole plan" in output


def test_a_closed_loop_takes_its_users_pauses(run: Run, tmp_path: Path) -> None:
    steps = [("w", key, 64) for key in range(4)]
    users = {"user_id": [0, 1, 0, 0], "session_id": [0, 1, 0, 0], "turn": [1, 1, 2, 3]}
    pauses = [0, 0, 20 * 10**9, 10 * 10**9]
    batch = traces.columns(
        steps, [0, 1, 2, 3], time_ns=[10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9], think_ns=pauses, **users
    )
    trace = traces.write(tmp_path / "t.parquet", batch).path
    output = run("replayer", "plan", trace, "--model", "tiny-1b", "--pace", "closed").stdout
    assert "time: at least 31 s (times and pauses of the trace at pace closed)" in output


@pytest.mark.parametrize(
    ("span", "line"),
    [
        (Span(300, 30), "time: cut at 300 s by the duration asked for, then at most 30 s of drain"),
        (Span(300, 30, duration_by="recipe"), "time: cut at 300 s by the trace's recipe, then at most 30 s of drain"),
        (
            Span(300),
            "time: cut at 300 s by the duration asked for, then until every op that was issued has ended (the drain has no limit)",
        ),
    ],
)
def test_a_cut_run_says_when_it_ends(trace: Trace, tmp_path: Path, span: Span, line: str) -> None:
    console = Lines()
    replayed(trace, tmp_path, console=console, span=span)
    assert line in console.lines


def test_a_cut_run_says_that_the_disk_holds_only_a_part(trace: Trace, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "2m") as place:
        info = replayed(trace, tmp_path, cache_dir=place, span=Span(300, 30), reserve=Reserve(bytes=MIB))
    (line,) = [warning["text"] for warning in info["warnings"] if "GiB at its peak" in warning["text"]]
    assert "this disk cannot hold the whole plan; if the run gets that far within 300 s, its stores fail." in line
