"""`replayer autoscale`: on a throttled tier of known speed, and the directions of targets."""

import json
from pathlib import Path

import pytest

from replayer.experiments import autoscale
from replayer.experiments.autoscale import SearchSettings, describe_metric
from replayer.run.figures import Screen
from tests.replayer.experiments.closed_loop import MIB_S, MOST_USERS, TARGET_MS, write_closed_loop
from tests.support.command_line import Run, sentence


@pytest.mark.usefixtures("series_here")
def test_qos_on_a_throttled_tier_finds_the_users_computed_from_its_speed(run: Run, tmp_path: Path) -> None:
    trace = write_closed_loop(tmp_path / "t.parquet", 14, 30)
    assert not trace.violations().problems
    command = (
        "replayer", "autoscale", trace.path, "--mode", "qos", "--metric", "e2e_p50_ms", "--target", TARGET_MS,
        "--model", "tiny-1b", "--layout", "null", "--throttle", f"nvme={MIB_S}", "--duration", 1.5, "--warmup", "0.6s",
        "--trials", 1, "--precision", 1, "-o", tmp_path / "scale",
    )  # fmt: skip
    done = run(*command)
    report = json.loads((tmp_path / "scale" / "autoscale.json").read_text())
    assert abs(report["result"]["users"] - MOST_USERS) <= 0.1 * MOST_USERS + 1, "users are whole"
    assert f"{report['result']['users']} users for the target" in done.stdout
    first = report["autoscaling_stats"][0]
    assert (first["users"], first["decision"]) == (1, "up")
    assert report["autoscaling_stats"][-1]["decision"] == "stop"
    busy = max(report["autoscaling_stats"], key=lambda row: row["users"])
    assert busy["saturation"] > 0.8 > first["saturation"], "reads and writes together"
    assert busy["throughput_gib_s"] > 0.85 * MIB_S / 1024 > 2 * first["throughput_gib_s"]
    assert report["result"]["sure"] is False, "one trial has no interval"
    assert (report["target_is"], report["least_samples"]) == ("at_most", 10)
    assert all(row["n"] >= 10 for row in report["autoscaling_stats"] if row["evidence"])
    (emulated,) = (one for one in report["warnings"] if one["headline"] == "emulated tier")
    runs = sum(row["trials"] for row in report["autoscaling_stats"])
    assert emulated["runs"] == f"{runs} of {runs} replays"


def qos_settings(metric: str) -> SearchSettings:
    return SearchSettings(Path("t"), "qos", metric, 1.0, None, 1, 0.0, 1.0, ())


@pytest.mark.usefixtures("series_here")
@pytest.mark.parametrize(
    ("name", "at_most", "least"),
    [
        ("hit_rate_tokens", False, 1),
        ("interactive_compliance", False, 100),
        ("e2e_p99_ms", True, 500),
        ("plan_wait_s", True, 1),
    ],
)
def test_a_target_is_the_limit_that_the_metric_needs(name: str, at_most: bool, least: int) -> None:
    metric = describe_metric(qos_settings(name), Screen())
    assert (metric.names, metric.at_most, metric.least) == ((name,), at_most, least)


def test_a_sum_with_a_value_that_was_not_measured_is_not_known() -> None:
    assert [autoscale.sum_if_measured(values) for values in ([1.0, 2.0], [0.0, 0.0], [1.0, None])] == [3.0, 0.0, None]


@pytest.mark.usefixtures("series_here")
def test_a_search_that_is_repeated_replays_nothing_twice(run: Run, tmp_path: Path) -> None:
    write_closed_loop(tmp_path / "t.parquet", 2, 30)
    command = (
        "replayer", "autoscale", tmp_path / "t.parquet", "--mode", "capacity", "--model", "tiny-1b", "--layout", "null",
        "--throttle", "nvme=2000", "--duration", 1, "--warmup", "0.4s", "--trials", 1, "-o", tmp_path / "scale", "--json",
    )  # fmt: skip
    first = run(*command)
    report = json.loads((tmp_path / "scale" / "autoscale.json").read_text())
    assert json.loads(first.stdout)["search"] == report
    assert first.stderr.count("complete") == sum(row["trials"] for row in report["autoscaling_stats"])
    assert report["result"]["peak"] > 0
    again = run(*command)
    assert "complete" not in again.stderr
    assert again.stdout == first.stdout
    other = run(*command, "--target", 5, ok=False)
    assert other.returncode == 2
    assert "other settings (target)" in other.stderr


REFUSED = {
    "an unknown metric": (["--mode", "qos", "--metric", "nvme_p95"], "nvme_p95"),
    "a metric without a direction": (["--mode", "qos", "--metric", "requests"], "--metric requests: neither higher"),
    "two directions in one sum": (
        ["--mode", "qos", "--metric", "ttfb_p95_ms+nvme_read_gib_s"],
        "higher is better for one of them, lower for another",
    ),
    "a peak of a metric that should be low": (
        ["--mode", "capacity", "--metric", "e2e_p95_ms"],
        "--metric e2e_p95_ms: lower is better, and capacity looks for a peak",
    ),
    "a share of a peak in qos mode": (
        ["--mode", "qos", "--target-saturation", "0.8"],
        "--target-saturation: it is for --mode capacity; for qos, pass --metric and --target.",
    ),
    "a value that `replayer run` refuses": (["--mode", "qos", "--set", "io_size=3"], "--set io_size"),
    "a pace": (["--mode", "qos", "--pace", "open"], "--pace"),
}


@pytest.mark.usefixtures("series_here")
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case: str, run: Run, demo_trace: Path, tmp_path: Path) -> None:
    flags, words = REFUSED[case]
    done = run("replayer", "autoscale", demo_trace, *flags, "-o", tmp_path / "out", ok=False)
    sentence(done, words)
    assert not (tmp_path / "out").exists(), "refused before work starts"
