"""Cases of a sweep file: lists of values, and what is refused first."""

import json
import shutil
from pathlib import Path

import pytest

from tests.replayer.sweep.grids import CASE, RECIPE, grid, swept
from tests.support.command_line import Run, sentence

GRID = f"""
trials = 2
pause_s = 1.5
[[case]]
name = "a"
trace = "quick.parquet"
model = "tiny-1b"
workers = [1, 2]
layout = ["files", "slab"]
verify = "full"
[[case]]
recipe = "{RECIPE}"
promote = true
fsync = ["none"]
[case.set]
users = 2
"personas.coding.weight" = 0
"""


def test_lists_of_values_make_a_grid(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, GRID), "--dry-run")
    quick = f"trace {tmp_path}/quick.parquet; --model tiny-1b"
    assert done.stdout.splitlines() == [
        "2 trials of each, 1.5 s of pause before another case",
        "at most 0.1 minutes for --duration, --drain and pauses, and as long as 5 cases without --duration take",
        f"  a-workers=1-layout=files: {quick} --workers 1 --layout files --verify full",
        f"  a-workers=1-layout=slab: {quick} --workers 1 --layout slab --verify full",
        f"  a-workers=2-layout=files: {quick} --workers 2 --layout files --verify full",
        f"  a-workers=2-layout=slab: {quick} --workers 2 --layout slab --verify full",
        f"  case_2: recipe {RECIPE} with users=2, personas.coding.weight=0; --promote --fsync none",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"], "nothing is written"


def test_sweeps_are_found_by_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no checkout, too; a file of the user's own wins over a name."""
    monkeypatch.chdir(tmp_path)
    shown = run("replayer", "sweep", "drive", "--dry-run", "-o", "sweep", cwd=tmp_path).stdout
    assert "chat-users=25-cpu_mem_gb=0: recipe chat" in shown
    assert "at most 27.9 minutes for --duration, --drain and pauses\n" in shown, "4 x 3 x 132 s + 3 x 30 s"
    sentence(
        run("replayer", "sweep", "drives", "-o", "sweep", ok=False, cwd=tmp_path),
        "drives: no file and no sweep has this name; name a TOML file or one of drive, submission-full, submission-smoke.",
    )
    Path("drive").write_text("nonsense = 1")
    sentence(run("replayer", "sweep", "drive", "-o", "sweep", ok=False, cwd=tmp_path), "nonsense is not known")


def test_flags_go_before_the_files(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    flags = ["--flag", "workers=7", "--flag", "storage-capacity-gb=0.5", "--trials", 5, "--dry-run", "--json"]
    found = json.loads(swept(run, grid(tmp_path, GRID), *flags).stdout)
    assert {one["case"]: len(one["runs"]) for one in found} == {"a-layout=files": 5, "a-layout=slab": 5, "case_2": 5}
    assert found[2]["runs"][4] == str(tmp_path / "sweep" / "case_2" / "trial_5")
    plain = swept(run, tmp_path / "grid.toml", *flags[:-1]).stdout.splitlines()
    assert plain[4].endswith("--promote --fsync none --workers 7 --storage-capacity-gb 0.5")


REFUSED = {
    "no TOML": ("trials = [", "grid.toml is not TOML: "),
    "a key": (f"trails = 2\n{CASE}", "grid.toml: trails is not known; did you mean trials?"),
    "a flag": (f"{CASE}wokers = 2\n", "grid.toml, case a: wokers is not known; did you mean workers?"),
    "the sweep's own flag": (f"{CASE}cache_dir = '/mnt'\n", "grid.toml, case a: cache_dir is not known; known are "),
    "a number": (
        f"{CASE}workers = [1, 'many']\n",
        "grid.toml, case a: Invalid value for '--workers': --workers 'many'",
    ),
    "a choice": (f"{CASE}pace = 'fast'\n", "grid.toml, case a: Invalid value for '--pace': 'fast' is not one of "),
    "no case": (
        "trials = 2\n",
        "grid.toml has no [[case]]; each names a recipe or a trace, and flags of replayer run.",
    ),
    "no table": ("case = 3\n", "grid.toml has no [[case]]; each names"),
    "two of a name": (CASE + CASE, "grid.toml: two cases are called a; give each a name of its own."),
    "two of a value": (f"{CASE}workers = [1, 1]\n", "grid.toml: two cases are called a-workers=1; give each a name"),
    "no recipe": ('[[case]]\nrecipe = "x.toml"\n', "grid.toml, case case_1: there is no {place}/x.toml; paths are"),
    "no such name": ('[[case]]\nrecipe = "x"\n', "case case_1: x is neither a file beside it nor a name"),
    "no trace": ('[[case]]\ntrace = "x.parquet"\n', "grid.toml, case case_1: there is no {place}/x.parquet; paths are"),
    "neither": ('[[case]]\nmodel = "tiny-1b"\n', "grid.toml, case case_1 must name either a recipe or a trace."),
    "both": (f'{CASE}recipe = "quick.parquet"\n', "grid.toml, case a must name either a recipe or a trace."),
    "a path": (CASE.replace('"a"', '"../a"'), "grid.toml, case ../a: name = '../a' must be of letters, digits and"),
    "no trials": (f"trials = 0\n{CASE}", "grid.toml: trials = 0 must be from 1 to 1,000."),
    "true trials": (f"trials = true\n{CASE}", "grid.toml: trials = True must be from 1 to 1,000."),
    "a pause": (f"pause_s = -1\n{CASE}", "grid.toml: pause_s = -1 must be from 0 to 86,400 seconds."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_first(run: Run, place: Path, tmp_path: Path, name: str) -> None:
    text, told = REFUSED[name]
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, text), ok=False)
    sentence(done, told.format(place=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_what_is_typed_wrong_is_refused_first(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, CASE)
    for flags, told in (
        (["--flag", "workers"], "--flag workers: write it as NAME=VALUE."),
        (["--flag", "workers=0x"], "grid.toml, case a: Invalid value for '--workers': --workers '0x'"),
        (["--trials", 0], "--trials 0 must be from 1 to 1,000."),
        (
            ["--ranks", 2, "--mpirun", "mpirun-of-nobody"],
            "--ranks 2 needs 'mpirun-of-nobody', which is not to be found",
        ),
    ):
        sentence(swept(run, path, *flags, ok=False), told)
    sentence(
        run("replayer", "sweep", tmp_path / "no.toml", "-o", tmp_path / "sweep", ok=False), "no.toml: No such file"
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_more_users_than_there_are_are_refused(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, f"{CASE}users = [2, 3]\n"), ok=False)
    sentence(done, f"case a-users=3: users = 3, but {tmp_path}/quick.parquet has 2; ask for fewer.")
    assert not list(tmp_path.glob("**/run.json")), "before the case that could be replayed"
