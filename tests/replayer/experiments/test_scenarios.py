"""The suite of scenarios: skipped scenarios, sizes, the ranking and the report."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.comparison.matching import name_sets
from replayer.cli import main
from replayer.commands.scenarios import render_system
from replayer.experiments import scenarios
from replayer.experiments.replay_series import Cache, Series
from replayer.experiments.scenario_sizes import Hardware, read_hardware, size_scenarios
from replayer.experiments.scenario_table import SCENARIOS
from replayer.experiments.scenarios import plan_suite, run_suite
from replayer.models import known as models
from tests.support.command_line import Run
from tracegen.errors import InputError

GIB = 1 << 30
HERE = Hardware(0, 8 * GIB, 100 * GIB, 4, "/dev/nvme0n1 (ext4)", {"gpu": "no GPU"})


def test_scenarios_that_need_a_missing_tier_are_skipped_with_the_reason(run: Run, tmp_path: Path) -> None:
    assert len(SCENARIOS) == 9
    suite = plan_suite([], HERE, "llama3.1-8b", 600)
    assert suite.skipped == dict.fromkeys(("gpu-only", "gpu+cpu", "gpu+cpu+storage"), "no gpu tier: no GPU")
    assert len(suite.names) == 6
    with pytest.raises(InputError, match="gpu-only: cannot run here: no gpu tier: no GPU"):
        plan_suite(["gpu-only"], HERE, "llama3.1-8b", 600)
    printed = run("replayer", "scenarios", "--dry-run", "-o", tmp_path / "suite").stdout
    for name in ("storage-only", "cpu+storage", "autoscaling"):
        assert f"{name:22}skipped: no nvme tier: no cache directory is named" in printed
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize("model", ["tiny-1b", "llama3.1-8b", "llama3.1-70b-instruct", "qwen3.5-27b"])
@pytest.mark.parametrize("cpu", [GIB // 2, 8 * GIB, 512 * GIB])
def test_sizes_fit_the_machine(model: str, cpu: int) -> None:
    hardware = Hardware(0, cpu, 100 * GIB, 4, "disk", {"gpu": "none"})
    each = models.find_model(model).sizes("fp16", 1)
    sizes = size_scenarios(hardware, each.per_token, 60, state_bytes=each.state)
    assert sizes.working_set <= min(cpu, 100 * GIB) / 4
    assert sizes.working_set <= 16 * GIB
    assert sizes.requests >= 8
    assert 2 <= sizes.users[1] <= sizes.users[0] <= 64
    assert sizes.prompt <= 4096
    largest = sizes.prompt * each.per_token + each.state
    assert sizes.users[0] * largest <= 8 * GIB


@pytest.fixture
def emulated() -> str:
    """Return a GPU device that every machine with PyTorch has."""
    pytest.importorskip("torch")
    return "cpu"


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
def test_the_tiers_are_ranked_and_reported(tmp_path: Path, emulated: str) -> None:
    small = Hardware(GIB // 2, GIB // 2, GIB, 2, "a disk", {})
    names = [name for name, scenario in SCENARIOS.items() if scenario.recipe == "tiers"]
    assert len(names) == 6
    suite = plan_suite(names, small, "tiny-1b", 60, trials=1)
    with Series(tmp_path / "suite", {"names": names}, Cache(tmp_path / "cache", make=True)) as series:
        report = run_suite(suite, series, emulated)
    assert [row["system"] for row in report["ranking"]][-1] in {"storage-only", "cpu+storage", "gpu+cpu+storage"}
    by_name = {row["system"]: row for row in report["ranking"]}
    assert set(by_name) == set(names)
    assert by_name["storage-only"]["speed_up"] == 1.0
    assert all((row["trials"], row["low"], row["tok_s_low"]) == (1, None, None) for row in by_name.values())
    speeds = [row["speed_up"] for row in report["ranking"]]
    assert speeds == sorted(speeds, reverse=True)
    assert by_name["cpu-only"]["speed_up"] > 1
    assert json.loads((tmp_path / "suite" / "scenarios.json").read_text())["ranking"] == report["ranking"]
    page = (tmp_path / "suite" / "report.html").read_text()
    assert "Against storage-only, tokens/s: " in page
    assert f"Every trial: {len(names)}" in page
    assert "the gpu tier was in host memory" in page, "an emulated tier is said to be one"
    for name in names:
        tiers = {
            t for t, size in _conditions(tmp_path / "suite" / name / "trial_1")["usable_bytes"].items() if size != 0
        }
        assert tiers == set(SCENARIOS[name].tiers)
    assert read_hardware(tmp_path / "suite") == small


@pytest.mark.usefixtures("series_here")
def test_the_scenarios_that_saturate_nvme_and_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "_report_runs", lambda runs, series: [])  # the test above makes a report
    small = Hardware(0, GIB // 4, GIB, 0, "a disk, few cores, few users", {"gpu": "none"})
    names = ["storage-saturation", "realistic-production", "autoscaling"]
    suite = plan_suite(names, small, "tiny-1b", 3, trials=1)
    with Series(tmp_path / "suite", {"names": names}, Cache(tmp_path / "cache", make=True)) as series:
        report = run_suite(suite, series, "cuda")
    assert report["autoscaling"]["result"]["peak"] > 0
    assert list(report["runs"]) == names
    names_shown = name_sets([[Path(run) for run in report["runs"][name]] for name in names])
    assert names_shown == [*names[:2], f"autoscaling/users_{report['autoscaling']['result']['users']}"]
    production = _conditions(tmp_path / "suite" / "realistic-production" / "trial_1")
    assert (production["token_ms"], production["pace"]) == (30, "closed")
    assert production["usable_bytes"]["cpu"] > 0
    assert _conditions(tmp_path / "suite" / "storage-saturation" / "trial_1")["max_concurrent_allocs"] == 16


def test_a_ranking_shows_intervals_if_there_are_any() -> None:
    many = {"system": "cpu-only", "tok_s": 24150.0, "tok_s_low": 23900.0, "tok_s_high": 24400.0, "speed_up": 1.267}
    many |= {"low": 1.2, "high": 1.332, "cut": True, "trials": 3, "why": None}
    assert render_system(1, many) == (
        "  1  cpu-only                  24,150 tok/s (23,900 to 24,400)  1.27 × storage-only (1.20 to 1.33); 3 trials,"
        " over its own window"
    )
    single = many | dict.fromkeys(("tok_s_low", "tok_s_high", "low", "high")) | {"cut": False, "trials": 1}
    assert render_system(2, single) == "  2  cpu-only                  24,150 tok/s  1.27 × storage-only; 1 trial"
    uncompared = single | {"speed_up": None, "why": "it is not valid"}
    assert render_system(3, uncompared) == "  3  cpu-only            not compared: it is not valid"


def test_the_budget_is_shared_by_the_trials() -> None:
    suite = plan_suite(["cpu-only", "storage-only"], HERE, "llama3.1-8b", 600)
    assert (suite.sizes.trials, suite.sizes.seconds, suite.sizes.trial_s) == (3, 300, 100)
    assert "; 3 trials of 100 s each" in suite.describe()[1]


def _conditions(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())["conditions"]


def test_wrong_names_and_models_are_refused(tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(main, ["scenarios", "cpu-onyl", "-o", str(tmp_path / "s")])
    assert wrong.exit_code == 2
    assert "cpu-onyl" in wrong.output
    wrong = runner.invoke(main, ["scenarios", "cpu-only", "--model", "gpt-9", "-o", str(tmp_path / "s")])
    assert wrong.exit_code == 2
    assert "gpt-9" in wrong.output
    assert not (tmp_path / "s").exists()
