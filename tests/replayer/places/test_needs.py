"""What a replay says before it begins: when it ends, and that the disk may not hold all."""

import re
from pathlib import Path

import pytest

from replayer.machine.reserve import Reserve
from replayer.planning.pace import Span
from tests.replayer.places.replays import MIB, Lines, replayed
from tests.support.mounts import tmpfs
from tracegen.schema import Trace


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
