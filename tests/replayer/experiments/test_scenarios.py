"""The suite of scenarios: skipped scenarios, sizes, equal requests, the comparison and the report."""

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from replayer.cli import main
from replayer.experiments import scenarios
from replayer.experiments.prediction import Predictor
from replayer.experiments.replay_series import Cache, Series
from replayer.experiments.scenarios import (
    Hardware,
    Suite,
    choose_sizes,
    compare_scenarios,
    list_scenarios,
    plan_suite,
    predict_suite,
    read_sizes,
    run_suite,
)
from replayer.experiments.sweep import make_traces
from replayer.live.figures import Screen
from replayer.models import known as models
from replayer.schema import parts
from tests.replayer.experiments.closed_loop import MIB_S, PIPE
from tests.replayer.run.predictions import DRIVE
from tests.support.command_line import Run, here
from tracegen.errors import InputError

GIB = 1 << 30
TIERS = ("gpu-only", "cpu-only", "storage-only", "gpu+cpu", "cpu+storage", "gpu+cpu+storage")


class Lines(Screen):
    def __init__(self, said: list[str]) -> None:
        self.say = said.append  # type: ignore[method-assign]


def machine(cpu: int, nvme: int, gpu: int = 0) -> Hardware:
    absent = {} if gpu else {"gpu": "no GPU"}
    return Hardware({"gpu": gpu, "cpu": cpu, "nvme": nvme}, "/dev/nvme0n1 (ext4)", absent)


def plan(names: list[str], hardware: Hardware, model: str, budget_s: float, trials: int) -> Suite:
    sizes = choose_sizes(hardware, models.find_model(model).sizes("fp16"))
    return plan_suite(names, sizes, hardware, {"model": model}, budget_s, trials)


def test_scenarios_that_need_a_missing_tier_are_skipped_with_the_reason(run: Run, tmp_path: Path) -> None:
    assert list_scenarios() == [*TIERS, "storage-saturation", "realistic-production", "autoscaling"]
    here_is = machine(8 * GIB, 100 * GIB)
    suite = plan([], here_is, "llama3.1-8b", 600, 3)
    assert suite.skipped == dict.fromkeys(("gpu-only", "gpu+cpu", "gpu+cpu+storage"), "no gpu tier: no GPU")
    assert len(suite.cases) == 6
    with pytest.raises(InputError, match="gpu-only: cannot run here: no gpu tier: no GPU"):
        plan(["gpu-only"], here_is, "llama3.1-8b", 600, 3)
    printed = run("replayer", "scenarios", "--dry-run", "-o", tmp_path / "suite").stdout
    for name in ("storage-only", "cpu+storage", "autoscaling"):
        assert f"{name:22}skipped: no nvme tier: no cache directory is named" in printed
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize("model", ["tiny-1b", "llama3.1-8b", "llama3.1-70b-instruct", "qwen3.5-27b"])
@pytest.mark.parametrize("cpu", [GIB // 2, 8 * GIB, 512 * GIB])
def test_sizes_fit_the_machine(model: str, cpu: int) -> None:
    each = models.find_model(model).sizes("fp16")
    sizes = choose_sizes(machine(cpu, 100 * GIB), each)
    assert float(sizes["all"]) * GIB <= min(cpu, 64 * GIB) / 4 + GIB / 1000, "rounded to MiB"
    assert float(sizes["disk"]) == 50
    assert 2 <= int(sizes["few"]) <= int(sizes["many"]) <= 200
    assert 16 <= int(sizes["high"]) <= 4096
    mean = 0.35 * int(sizes["high"]) * each.per_token + each.state
    if int(sizes["few"]) > 2:
        assert int(sizes["few"]) * 8 * mean <= 1.1 * float(sizes["all"]) * GIB


def test_the_budget_is_shared_by_the_trials() -> None:
    suite = plan(["cpu-only", "storage-only"], machine(8 * GIB, 100 * GIB), "llama3.1-8b", 600, 3)
    assert (suite.sweep.trials, suite.seconds, suite.trial_s) == (3, 300, 100)
    assert all(case.time_limit_s() == 110 for case in suite.cases), "a tenth more to drain"
    assert suite.describe()[0].endswith("; 3 trials of 100 s each, by turns")


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
def test_the_tiers_do_the_same_requests_and_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # its device `cpu` stands for a GPU
    small = machine(GIB // 2, GIB, GIB // 2)
    suite = plan(list(TIERS), small, "tiny-1b", 9, 1)
    with Series(tmp_path / "suite", {"sizes": suite.sizes}, Cache(tmp_path / "cache", make=True)) as series:
        assert run_suite(suite, series, "cpu") is None
        compared = json.loads(compare_scenarios(suite, series, "--json"))
    assert read_sizes(tmp_path / "suite") == suite.sizes
    assert set(TIERS) <= set(json.dumps(compared).split('"')), "all are in the comparison"
    assert "the gpu tier was in host memory" in (tmp_path / "suite" / "report.html").read_text()
    infos = {name: _info(tmp_path / "suite" / name / "trial_1") for name in TIERS}
    for name, info in infos.items():
        tiers = {tier for tier, size in info["conditions"]["usable_bytes"].items() if size != 0}
        words = name.replace("storage", "nvme").removesuffix("-only").split("+")
        assert tiers == set(words)
    logs = {name: pl.read_parquet(parts(tmp_path / "suite" / name / "trial_1")) for name in TIERS}
    asked = {name: _asked(log) for name, log in logs.items()}
    assert all(log.filter(pl.col("move") == "miss").is_empty() for log in logs.values())
    for name in TIERS:
        both = asked[name].join(asked["storage-only"], on="position")
        assert both.height > 100
        assert (both["key"] == both["key_right"]).all(), "the same object at each place of the order"


def test_a_ratio_of_tiers_does_not_depend_on_the_cut(tmp_path: Path) -> None:
    """Memory is 20 times as fast as the drive, so it does any part of the requests in a 20th of the time."""
    profile = tmp_path / "pipe.toml"
    cpu, nvme = (PIPE[PIPE.index("[nvme]") :].replace("nvme", tier) for tier in ("cpu", "nvme"))
    faster = cpu.replace("[cpu]\n", "").replace(f"{MIB_S * 2**20 / 1e9}", f"{20 * MIB_S * 2**20 / 1e9}")
    profile.write_text(PIPE[: PIPE.index("[nvme]")] + faster + nvme)
    suite = plan(["cpu-only", "storage-only"], machine(GIB // 2, GIB), "tiny-1b", 60, 1)
    with Series(tmp_path / "suite", {}) as series:
        trace = make_traces(suite.cases, series)["cpu-only"]
    done = {}
    for case in suite.cases:
        words = (*case.flags, "--duration", 20, "--profile", profile)
        ran = here("replayer", "predict", trace, *words, "-o", tmp_path / case.name)
        assert ran.returncode == 0, ran.stderr
        log = _asked(pl.read_parquet(parts(tmp_path / case.name))).sort("end_ns")
        done[case.name] = log.with_columns(done=pl.col("size_bytes").cum_sum())
    most = min(log["done"][-1] for log in done.values())
    for share in (0.1, 0.3, 1):
        reached = {name: log.filter(pl.col("done") <= share * most)["end_ns"][-1] for name, log in done.items()}
        assert reached["storage-only"] / reached["cpu-only"] == pytest.approx(20, rel=0.05)


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
def test_the_scenarios_that_saturate_nvme_and_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "_USERS", (2, 4, 8))
    names = ["storage-saturation", "realistic-production", "autoscaling"]
    suite = plan(names, machine(GIB // 4, GIB), "tiny-1b", 3, 1)
    with Series(tmp_path / "suite", {}, Cache(tmp_path / "cache", make=True)) as series:
        search = run_suite(suite, series, "cpu")
        assert compare_scenarios(suite, series) == "", "they do unlike requests"
    assert search is not None
    assert search["result"]["peak"]
    production = _info(tmp_path / "suite" / "realistic-production" / "trial_1")["conditions"]
    assert (production["token_ms"], production["pace"]) == (30, "closed")
    assert production["usable_bytes"]["cpu"] > 0
    assert _info(tmp_path / "suite" / "storage-saturation" / "trial_1")["conditions"]["max_concurrent_allocs"] == 16


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
def test_scenarios_are_predicted_beside_their_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "_USERS", (2, 4, 8))
    profile = tmp_path / "drive.toml"
    begin, end = (text := DRIVE.read_text()).index("writes_on_reads"), text.index("[nvme]")
    profile.write_text(text[:begin] + text[end:])  # no cpu tier
    said: list[str] = []
    suite = plan(["cpu-only", "storage-only"], machine(GIB // 2, GIB), "tiny-1b", 8, 1)
    cache = Cache(tmp_path / "cache", make=True)
    with Series(tmp_path / "suite", {}, cache, display=Lines(said)) as series:
        run_suite(suite, series, "cpu")
        errors = predict_suite(suite, series, Predictor.load(str(profile), {}))
    assert "cpu-only/predicted: the profile has no cpu tier" in said
    assert "PREDICTED with the profile hand-written" in errors
    assert "wall_clock_tok_s" in errors
    storage = tmp_path / "suite" / "storage-only"
    plans = [_info(storage / name)["plan"]["plan_fingerprint"] for name in ("predicted", "trial_1")]
    assert plans[0] == plans[1]


def test_a_suite_that_is_continued_keeps_its_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replayer.commands.scenarios.detect_hardware", lambda *_: machine(8 * GIB, 100 * GIB))
    words = ["scenarios", "cpu-only", "--dry-run", "-o", str(tmp_path)]
    assert "tiers of up to 2.00 GiB" in CliRunner().invoke(main, words).output
    sizes = choose_sizes(machine(4 * GIB, 100 * GIB), models.find_model("llama3.1-8b").sizes("fp16"))
    (tmp_path / "series.json").write_text(json.dumps({"sizes": sizes}))
    assert "tiers of up to 1.00 GiB" in CliRunner().invoke(main, words).output


def test_wrong_names_and_models_are_refused(tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(main, ["scenarios", "cpu-onyl", "-o", str(tmp_path / "s")])
    assert wrong.exit_code == 2
    assert "cpu-onyl" in wrong.output
    wrong = runner.invoke(main, ["scenarios", "cpu-only", "--model", "gpt-9", "-o", str(tmp_path / "s")])
    assert wrong.exit_code == 2
    assert "gpt-9" in wrong.output
    assert not (tmp_path / "s").exists()


def _info(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def _asked(log: pl.DataFrame) -> pl.DataFrame:
    """The move that each op asked for, without what it evicted."""
    return log.filter(pl.col("move").cast(pl.String).is_in(["hit", "store"])).unique("position")
