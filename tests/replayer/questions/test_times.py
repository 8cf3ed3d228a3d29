"""`replayer simulate --profile`: the times beside the hits are those of `analysis` on the same predicted run."""

import json
from pathlib import Path
from typing import Any

import pytest

from replayer.record.simulation import PREDICTED_COLUMNS
from replayer.schema import SIMULATION_COLUMNS, read_simulation
from tests.replayer.run.predictions import DRIVE, MODEL, make_trace
from tests.support.command_line import here, sentence

NAMES = tuple(column.name for column in PREDICTED_COLUMNS)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trace(tmp_path_factory.mktemp("trace") / "chat.parquet")


def simulated(*arguments: object) -> dict[str, Any]:
    done = here("replayer", "simulate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


@pytest.mark.parametrize(
    ("load", "flags"),
    [
        (("--pace", "closed", "--speedup", "200"), ()),
        (("--pace", "open", "--speedup", "2000", "--order", "reference"), ("--speed", "nvme=0.5")),
        (("--pace", "asap", "--workers", "3", "--arrangement", "lmcache"), ()),
    ],
)
def test_times_equal_those_of_the_predicted_run(
    chat: Path, tmp_path: Path, load: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    shared = (*MODEL, *load, "--profile", DRIVE, *flags)
    content = simulated(chat, *shared, "--cpu-mem-gb", "0,0.05,0.3")
    prediction = content["prediction"]
    assert prediction["profile"] == "hand-written"
    for cell, cpu in zip(content["cells"], ("0", "0.05", "0.3"), strict=True):
        run = tmp_path / cpu
        done = here("replayer", "predict", chat, *shared, "--cpu-mem-gb", cpu, "-o", run)
        assert done.returncode == 0, done.stderr
        summary = json.loads(here("analysis", "summary", run, "--json").stdout)
        for name in NAMES:
            value = summary[name]
            assert cell[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name
        assert cell["elapsed_s"] > 0
    assert (content["cells"][1]["ttfb_p95_ms"] is None) == ("asap" in load)


def test_the_file_has_times_only_with_a_profile(chat: Path, tmp_path: Path) -> None:
    words = (chat, *MODEL, "--cpu-mem-gb", "0.05,0.3", "--order", "trace")
    plain = simulated(*words, "-o", tmp_path / "plain.parquet")
    timed = simulated(*words, "--profile", DRIVE, "-o", tmp_path / "timed.parquet")
    counts = [column.name for column in SIMULATION_COLUMNS]
    for name, content, columns in (("plain", plain, counts), ("timed", timed, [*counts, *NAMES])):
        table, info = read_simulation(tmp_path / f"{name}.parquet")
        assert table.column_names == columns
        assert (info.prediction is None) == (name == "plain")
        assert table.to_pylist() == content["cells"]


def test_the_table_shows_times_and_sorts_by_them(chat: Path) -> None:
    words = (chat, *MODEL, "--cpu-mem-gb", "0.05,0.3,0", "--profile", DRIVE)
    done = here("replayer", "simulate", *words, "--sort", "wall_clock_tok_s")
    assert "  times are predicted from the profile hand-written (measured)" in done.stdout.splitlines()
    for column, is_best_first in (("wall_clock_tok_s", True), ("nvme_read_p95_ms", False)):
        cells = simulated(*words, "--sort", column)["cells"]
        values = [cell[column] for cell in cells if cell[column] is not None]
        assert values == sorted(values, reverse=is_best_first)


def test_what_cannot_be_predicted_is_refused(chat: Path, tmp_path: Path) -> None:
    words = ("replayer", "simulate", chat, *MODEL, "--cpu-mem-gb", "0.05,0.3")
    sentence(here(*words, "--sort", "elapsed_s"), "--sort elapsed_s: no column of the table has this name")
    sentence(
        here(*words, "--speed", "nvme=2"), "--speed: it changes a profile, and there is none; pass --profile, too."
    )
    words += ("--profile", DRIVE)
    sentence(here(*words, "--gpu-mem-gb", "0,1"), "the plan uses the gpu tier, and the profile has cpu, nvme only")
    sentence(here(*words, "--workers", "100"), "--workers 100: outside the profile hand-written")
    warned = here(*words, "--workers", "20")
    assert warned.stderr.count("Warning: there are 20 workers") == 2, "one for each tier, whatever the number of cells"
