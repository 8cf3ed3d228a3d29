"""The cases of a sweep file: grids, and files that are refused before any replay."""

import json
import shutil
from pathlib import Path

import pytest

from replayer.experiments.sweep import load_sweep
from tests.replayer.sweep.grids import CASE, RECIPE, run_sweep, write_grid
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
    path = write_grid(tmp_path, GRID)
    answer = json.loads(run_sweep(run, path, "--dry-run", "--json").stdout)
    quick = f"trace {tmp_path}/quick.parquet"
    assert [[*row.values()] for row in answer["tables"][0]["rows"]] == [
        *(
            [
                f"a-workers={workers}-layout={layout}",
                quick,
                f"--model tiny-1b --workers {workers} --layout {layout} --verify full",
            ]
            for workers in (1, 2)
            for layout in ("files", "slab")
        ),
        [
            "case_2",
            f"recipe {RECIPE}",
            "users=2 personas.coding.weight=0 --set promote=true --fsync none",
        ],
    ]
    printed = run_sweep(run, path, "--dry-run").stdout
    assert "at most 13.5 s for duration, drain and pauses, and as long as 5 cases" in printed, "9 pauses"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"], "nothing is written"


def test_sweeps_are_found_by_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also outside a checkout; a user's file comes before a name."""
    monkeypatch.chdir(tmp_path)
    printed = run("replayer", "sweep", "drive", "--dry-run", "-o", "sweep", cwd=tmp_path).stdout
    assert "chat-users=50-cpu_mem_gb=0 " in printed
    assert "at most 1,914 s for duration, drain and pauses." in printed, "4 x 3 x 132 s + 11 x 30 s"
    sentence(
        run("replayer", "sweep", "drives", "-o", "sweep", ok=False, cwd=tmp_path),
        "drives: no file or sweep has this name; name a TOML file, or did you mean drive?",
    )
    Path("drive").mkdir()
    assert "chat-users=50" in run("replayer", "sweep", "drive", "--dry-run", "-o", "drive", cwd=tmp_path).stdout
    Path("drive").rmdir()
    Path("drive").write_text("nonsense = 1")
    sentence(run("replayer", "sweep", "drive", "-o", "sweep", ok=False, cwd=tmp_path), "nonsense is unknown")


def test_flags_override_the_file(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    flags = ["--flag", "workers=7", "--flag", "storage-capacity-gb=0.5", "--trials", 5, "--dry-run", "--json"]
    answer = json.loads(run_sweep(run, write_grid(tmp_path, GRID), *flags).stdout)
    cases = answer["cases"]
    assert {case["case"]: len(case["runs"]) for case in cases} == {"a-layout=files": 5, "a-layout=slab": 5, "case_2": 5}
    assert cases[2]["runs"][4] == str(tmp_path / "sweep" / "case_2" / "trial_5")
    last = answer["tables"][0]["rows"][2]["settings and flags"]
    assert last.endswith("--set promote=true --fsync none --workers 7 --storage-capacity-gb 0.5")


REFUSED = {
    "an unknown key": (f"trails = 2\n{CASE}", "grid.toml: trails is unknown; did you mean trials?"),
    "an unknown flag": (f"{CASE}wokers = 2\n", "grid.toml, case a: wokers is unknown; did you mean workers?"),
    "a flag that the series sets": (f"{CASE}cache_dir = '/mnt'\n", "grid.toml, case a: cache_dir is unknown; "),
    "two cases with one name": (CASE + CASE, "grid.toml: two cases have the name a; give each its own."),
    "no recipe": ('[[case]]\nrecipe = "x.toml"\n', "grid.toml, case case_1: {place}/x.toml does not exist"),
    "neither recipe nor trace": ('[[case]]\nmodel = "tiny-1b"\n', "case case_1: the case must name either "),
    "both recipe and trace": (f'{CASE}recipe = "quick.parquet"\n', "case a: the case must name either "),
    "a path as a name": (CASE.replace('"a"', '"../a"'), "grid.toml, case ../a: name = '../a' must consist of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_replayed_is_refused(run: Run, place: Path, tmp_path: Path, name: str) -> None:
    text, words = REFUSED[name]
    shutil.copy(place / "quick.parquet", tmp_path)
    done = run_sweep(run, write_grid(tmp_path, text), ok=False)
    sentence(done, words.format(place=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_wrong_flags_are_refused(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = write_grid(tmp_path, CASE)
    for flags, words in (
        (["--flag", "workers"], "--flag workers: has no value; write NAME=VALUE."),
        (["--flag", "workers=0x"], "grid.toml, case a: Invalid value for '--workers': '0x'"),
        (
            ["--ranks", 2, "--mpirun", "mpirun-of-nobody"],
            "--ranks 2: 'mpirun-of-nobody' is not an installed command; install MPI, or pass --mpirun.",
        ),
    ):
        sentence(run_sweep(run, path, *flags, ok=False), words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_more_users_than_the_trace_has_are_refused(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    done = run_sweep(run, write_grid(tmp_path, f"{CASE}users = [2, 3]\n"), ok=False)
    sentence(done, f"case a-users=3: users = 3, but {tmp_path}/quick.parquet has 2; ask for fewer.")
    assert not list(tmp_path.glob("**/run.json")), "refused before the other case was replayed"


def test_trials_of_all_cases_alternate(place: Path, tmp_path: Path) -> None:
    """A B C, C B A, A B C: the places of a case in time add up to the same, but for an odd last round."""
    shutil.copy(place / "quick.parquet", tmp_path)
    order = load_sweep(write_grid(tmp_path, f"{CASE}workers = [1, 2, 3]\n"), 3).order()
    cases, trials = (1, 2, 3, 3, 2, 1, 1, 2, 3), (1, 1, 1, 2, 2, 2, 3, 3, 3)
    assert [name for _, name in order] == [f"a-workers={c}/trial_{t}" for c, t in zip(cases, trials, strict=True)]
