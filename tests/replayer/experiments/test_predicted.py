"""Predicted searches: the answer computed from a profile's speed."""

import json
from pathlib import Path

import pytest

from tests.replayer.experiments.closed_loop import MOST_USERS, PIPE, TARGET_MS, write_closed_loop
from tests.support.command_line import Run, here, sentence


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.toml"
    path.write_text(PIPE)
    return path


@pytest.mark.usefixtures("series_here")
def test_a_predicted_search_finds_the_users_computed_from_the_speed(run: Run, tmp_path: Path, pipe: Path) -> None:
    trace = write_closed_loop(tmp_path / "t.parquet", 24, 60)
    command = (
        "replayer", "autoscale", trace.path, "--mode", "qos", "--metric", "e2e_p50_ms", "--target", TARGET_MS,
        "--model", "tiny-1b", "--duration", 5, "--warmup", "2s", "--predict", pipe, "-o", tmp_path / "scale",
    )  # fmt: skip
    done = run(*command)
    report = json.loads((tmp_path / "scale" / "autoscale.json").read_text())
    assert abs(report["result"]["users"] - MOST_USERS) <= 0.1 * MOST_USERS + 1, "users are whole"
    assert "PREDICTED" in done.stdout
    assert (report["prediction"]["profile"], report["prediction"]["speeds"]) == ("pipe", None)
    rows = report["autoscaling_stats"]
    assert all(row["trials"] == 1 for row in rows)
    assert all(f"users_{row['users']}/trial_1: predicted, complete" in done.stderr for row in rows if row["evidence"])
    assert report["result"]["sure"] is False
    page = (tmp_path / "scale" / "report.html").read_text()
    assert "Predicted, not measured." in page
    assert not list((tmp_path / "scale").glob("**/device.parquet"))
    assert run(*command).stdout == done.stdout, "it continues where it stopped: at its end"
    series = json.loads((tmp_path / "scale" / "series.json").read_text())
    assert series["prediction"] == report["prediction"]
    pipe.write_text(PIPE.replace("cores = 1000.0", "cores = 1001.0"))
    sentence(here(*command), "begun with other settings (prediction)")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--layout", "slab"), "--layout: predictions are made under the conditions of their profile; leave it out."),
        (("--trials", 3), "--predict: a prediction is the same each time; leave --trials out."),
        (("--speed", "gpu=2"), "--speed: the profile pipe has no tier gpu; name nvme."),
        (("--cache-dir", "x"), "--cache-dir x: predictions need no directory; leave it out."),
    ],
)
def test_what_a_predicted_search_cannot_use_is_refused(
    tmp_path: Path, pipe: Path, flags: tuple[object, ...], words: str
) -> None:
    trace = write_closed_loop(tmp_path / "t.parquet", 2, 3)
    command = ("replayer", "autoscale", trace.path, "--mode", "qos", "--model", "tiny-1b", "--predict", pipe)
    sentence(here(*command, *flags, "-o", tmp_path / "scale"), f"Error: {words}")
    assert not (tmp_path / "scale").exists()
