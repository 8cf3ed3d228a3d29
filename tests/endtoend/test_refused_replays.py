"""Plans and replays that cannot work are refused in one sentence."""

from pathlib import Path

import pytest

from tests.support import traces
from tests.support.command_line import Run, here, sentence
from tests.support.mounts import tmpfs
from tests.support.paths import DEMO, SAMPLE

# Arguments, and the words of the refusal; {t} is a trace.
BAD_PLAN = {
    "{d}/none.parquet": "none.parquet",
    "{s}": "sample_sharegpt.json Parquet",
    "{t} --model llama9": "--model llama9 llama3.1-8b",
    "{t} --cpu-mem-gb 0 --storage-capacity-gb 0": "--storage-capacity-gb",
    "{t} --cpu-mem-gb nan": "--cpu-mem-gb",
    "{t} --model llama3.1-8b --set tensor_parallel=3": "--set tensor_parallel=3",
}
BAD_RUN = {
    "-o {d}/run --cache-dir {d}/c --model llama9": "--model llama9 llama3.1-8b",
    "-o {d}/run": "--cache-dir",
    "-o {d}/run --cache-dir {s}": "--cache-dir file",
    "-o {d}/run --cache-dir {d}/c --set window=0": "window 0",
    "-o {d}/run --cache-dir {d}/c --gpu-mem-gb 1": "--gpu-mem-gb",
    "-o {d}/run --cache-dir {d}/c --cpu-mem-gb 900000": "--cpu-mem-gb",
}


@pytest.mark.parametrize("flags", BAD_PLAN)
def test_what_cannot_be_planned_is_refused(demo_trace: Path, tmp_path: Path, flags: str) -> None:
    arguments = flags.format(d=tmp_path, t=demo_trace, s=SAMPLE).split()
    sentence(here("replayer", "plan", *arguments), *BAD_PLAN[flags].split())


@pytest.mark.parametrize("flags", BAD_RUN)
def test_what_cannot_be_run_is_refused(demo_trace: Path, tmp_path: Path, flags: str) -> None:
    arguments = flags.format(d=tmp_path, s=SAMPLE).split()
    sentence(here("replayer", "run", demo_trace, *arguments), *BAD_RUN[flags].split())
    assert not (tmp_path / "run").exists()


def test_a_trace_that_breaks_the_format_is_refused(tmp_path: Path) -> None:
    path = traces.write(tmp_path / "bad.parquet", traces.columns([("r", 0, 5), ("w", 1, -3)])).path
    done = here("replayer", "plan", path, "--model", "tiny-1b")
    sentence(done, "bad.parquet, row 0: key = 0: used before it was written", "tracegen validate")


def test_a_plan_too_large_for_the_disk_is_refused_with_a_size_that_fits(run: Run, tmp_path: Path) -> None:
    """The demo's first 120 requests have objects of more than 64 MiB."""
    run("tracegen", "generate", DEMO, "--requests", 120, "-o", tmp_path / "t.parquet")
    with tmpfs(tmp_path / "small", "64m") as place:
        common = [tmp_path / "t.parquet", "--model", "tiny-1b", "--cpu-mem-gb", 0, "--cache-dir", place]
        unlimited = ["--storage-capacity-gb", 1000, "-o", tmp_path / "run"]
        refused = run("replayer", "run", *common, *unlimited, ok=False)
        sentence(refused, str(place))
        advice = refused.stderr.split("pass ")[1].split()[:2]
        run("replayer", "run", *common, *advice, "-o", tmp_path / "run")
        (place / "filler").write_bytes(bytes(60 << 20))
        sentence(run("replayer", "run", *common, *advice, "-o", tmp_path / "run2", ok=False), "are free")


@pytest.mark.parametrize("replay", [[1], {"cpu_mem_gb": float("nan")}])
def test_a_foreign_recipe_with_bad_replay_defaults_is_refused(tmp_path: Path, replay: object) -> None:
    path = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5)]), recipe={"replay": replay}).path
    assert here("replayer", "plan", path).returncode == 2
