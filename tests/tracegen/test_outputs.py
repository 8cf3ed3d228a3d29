"""Output files: complete or absent, and never replaced unasked."""

import json
from dataclasses import replace
from pathlib import Path

from tests.support.command_line import Run, sentence
from tests.support.mounts import tmpfs
from tests.support.paths import DEMO
from tests.tracegen.derived import RECIPE
from tracegen.generate import generate
from tracegen.schema import Trace


def test_a_folder_of_parts_is_the_same_trace(run: Run, tmp_path: Path) -> None:
    recipe = replace(RECIPE, requests=44_000, users=100)
    folder, single = tmp_path / "parts", tmp_path / "single.parquet"
    for _ in range(2):  # a folder of parts is replaced, other folders are not
        assert generate(recipe, folder, part_ops=100_000, force=True) == generate(recipe, single, force=True)
    assert len(list(folder.iterdir())) == 3
    assert "valid" in run("tracegen", "validate", folder).stdout
    plans = [
        json.loads(run("replayer", "plan", path, "--cpu-mem-gb", 20, "--json").stdout)["plan_fingerprint"]
        for path in (folder, single)
    ]
    assert plans[0] == plans[1]
    sentence(run("tracegen", "slice", folder, "--requests", 5, "-o", folder, ok=False), "--force")
    (folder / "part-00001.parquet").unlink()
    assert run("tracegen", "validate", folder, ok=False).returncode == 1


def test_a_full_disk_is_reported_and_no_partial_file_stays(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "64k") as place:
        recipe = ["--set", "mix.personas=1", "--requests", 20_000]
        sentence(
            run("tracegen", "generate", *recipe, "-o", place / "t.parquet", ok=False), "t.parquet", "No space left"
        )
        export = ["mlcommons", demo_trace, "--bytes-per-token", 8]
        sentence(run("tracegen", "export", *export, "-o", place / "t.csv", ok=False), "t.csv", "No space left")
        assert list(place.iterdir()) == []


def test_only_regular_files_are_replaced(run: Run, tmp_path: Path) -> None:
    sentence(
        run("tracegen", "generate", DEMO, "-o", "/dev/null", "--force", ok=False), "-o /dev/null: not a regular file"
    )
    (tmp_path / "notes.txt").write_text("precious")
    for flags in ([], ["--part-ops", 1000]):
        refused = run("tracegen", "generate", DEMO, *flags, "-o", tmp_path, "--force", ok=False)
        sentence(refused, f"-o {tmp_path}: a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    sentence(run("tracegen", "generate", DEMO, "-o", tmp_path / "notes.txt", ok=False), "--force")
    assert (tmp_path / "notes.txt").read_text() == "precious"
    run("tracegen", "generate", DEMO, "-o", tmp_path / "notes.txt", "--force")
    assert Trace(tmp_path / "notes.txt").ops > 0


def test_a_dangling_link_is_not_replaced_unasked(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    for name in ("t.parquet", "t.csv", "t.html"):
        (tmp_path / name).symlink_to("nowhere")
    export = ["export", "mlcommons", demo_trace, "--bytes-per-token", 8, "-o", tmp_path / "t.csv"]
    for command in (
        ["generate", DEMO, "-o", tmp_path / "t.parquet"],
        export,
        ["info", demo_trace, "-o", tmp_path / "t.html"],
    ):
        sentence(run("tracegen", *command, ok=False), "--force")
    sentence(run("tracegen", *export[:-1], f"{tmp_path}/\udcff.csv", ok=False), "not a name", "-o")
    assert all(path.is_symlink() for path in tmp_path.iterdir())
