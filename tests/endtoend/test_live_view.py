"""A replay while it runs, as a user sees it: on a terminal, on a narrow one, on a dumb one, on a pipe."""

import re
from pathlib import Path

from tests.support.going_runs import CACHE, MODEL, SLOW, info
from tests.support.terminals import Terminal

CASE = """
[[case]]
name = "{name}"
trace = "{trace}"
model = "tiny-1b"
pace = "asap"
throttle = "nvme=16"
"""


def begin(trace: Path, place: Path, *flags: object, columns: int = 80) -> Terminal:
    """A replay into place/run."""
    words = [*MODEL, *SLOW, *CACHE, place / "cache", "-o", place / "run", *flags]
    return Terminal("replayer", "run", trace, *words, columns=columns)


def shows_rates(text: str) -> object:
    return re.search(r"^nvme \d+\.\d\d GiB/s read, \d+\.\d\d written$", text, re.M)


def test_a_run_on_a_terminal(endless: Path, tmp_path: Path) -> None:
    """Rates, moves in flight, time left; then the drain; at the end they are erased."""
    slow = ("--throttle", "nvme=64,400ms")  # a move takes 0.4 s: so does a drain
    flags = (*slow, "--duration", "3", "--set", "drain=2", "--pace", "closed")
    terminal = begin(endless, tmp_path, *flags, columns=60)
    text = terminal.wait_for(lambda text: shows_rates(text) and re.search(r"in flight .*queued", text))
    frame = text[text.index("\nreplaying") :]
    assert max(map(len, frame.splitlines())) <= 60
    assert re.search(r"00:0[0-3] of 00:03, 00:0[0-3] left", text)
    assert re.search(r"in flight [0-4] moves?, \d", text), "no more than there are workers"
    terminal.wait_for(lambda text: "draining, at most " in text)
    assert terminal.end() == 0
    picture = terminal.picture
    assert picture.unknown == []
    last = picture.text().splitlines()[-1]
    assert re.match(re.escape(f"{tmp_path}/run: complete, "), last)
    assert "in flight" not in picture.text(), "only lines stay"


def test_ctrl_c_gives_the_terminal_back(endless: Path, tmp_path: Path) -> None:
    terminal = begin(endless, tmp_path)
    terminal.wait_for(shows_rates)
    terminal.press("\x03")
    assert terminal.end() == 130
    picture = terminal.picture
    assert picture.text().splitlines()[-1].startswith(f"Interrupted. {tmp_path}/run holds what was done;")
    assert "in flight" not in picture.text()
    assert info(tmp_path / "run")["status"] == "incomplete"


def test_a_sweep_shows_where_it_is(storing: Path, tmp_path: Path) -> None:
    """Case, trial and the time left in all; the lines of its replays stay above."""
    grid = tmp_path / "grid.toml"
    grid.write_text("trials = 2\n" + "".join(CASE.format(name=name, trace=storing) for name in ("one", "two")))
    words = [*CACHE, tmp_path / "cache", "-o", tmp_path / "sweep"]
    terminal = Terminal("replayer", "sweep", grid, *words, columns=90)
    terminal.wait_for(lambda text: re.search(r"^replay 1 of 4: one/trial_1, about 00:\d\d left in all$", text, re.M))
    text = terminal.wait_for(lambda text: "replay 2 of 4: two/trial_1" in text)
    assert re.search(r"^one/trial_1: complete, 2,400 ops$", text, re.M)
    assert len(re.findall(r"^nvme tier: ", text, re.M)) == 1, "each replay says so, and it is shown once"
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "left in all" not in terminal.picture.text()
    log = (tmp_path / "sweep" / "one" / "log-trial_1.txt").read_text()
    assert 'progress":' not in log
