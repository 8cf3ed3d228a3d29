"""Quantities with units on the command line, and values that flags refuse."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest

from analysis.commands import target_options
from analysis.log.targets import Targets
from replayer.options.command_line import parse_words
from replayer.options.resolving import overlay_recipe, resolve_demand
from replayer.tiers.throttled import Throttle
from tests.support import traces
from tests.support.command_line import here, sentence
from tracegen.console.command_line import GIB, MIB_S, MICROSECONDS, MILLISECONDS, SECONDS
from tracegen.errors import InputError
from tracegen.schema import Trace


def test_a_quantity_is_parsed_in_its_unit() -> None:
    for unit, text, value in (
        (SECONDS, "1.5 h", "5400"),
        (MILLISECONDS, "1.5s", "1500"),
        (MICROSECONDS, "100µs", "100"),
        (GIB, "512M", "0.5"),
        (GIB, "1TB", "931.322574615478515625"),
        (MIB_S, "2GB/s", "1907.3486328125"),
    ):
        assert unit.parse(text) == Decimal(value), text


def test_an_error_names_the_unit_and_gives_examples() -> None:
    for unit, texts, words in (
        (SECONDS, ["", "s", "5x", "5M", "5 5", "1:30", "nan", "inf", "0x10", "1e99999", "٣"], "seconds.*90s, 5m or 1h"),
        (GIB, ["4Gb", "4 gigs", "4/s", "4s"], "GiB.*4G, 512M or 1T"),
        (MIB_S, ["10Gb/s", "2GBps", "2GB/m"], "MiB/s.*7GB/s"),
        (SECONDS, ["1e16", "1e400"], "below 1e16 seconds"),
    ):
        for text in texts:
            with pytest.raises(ValueError, match=words):
                unit.parse(text)


def parse(*words: object) -> dict[str, Any]:
    return parse_words([str(word) for word in words])


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--duration", "5m"], "duration", 300.0),
        (["--cpu-mem-gb", "512M"], "cpu_mem_gb", Decimal("0.5")),
        (["--warmup", "30s"], "warmup", (0, 30.0, False)),
        (["--warmup", "5000ops"], "warmup", (5000, 0, False)),
        (["--warmup", "steady"], "warmup", (0, 0, True)),
        (["--throttle", "nvme=r2G/s/w1G/s,1ms"], "throttle", (("nvme", Throttle(2048, 1000, 1024)),)),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else None,
)
def test_flags_take_units(flags: list[str], name: str, value: object) -> None:
    parsed = parse(*flags)[name]
    assert parsed == value
    assert not isinstance(value, float) or isinstance(parsed, float), "run.json holds it"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return a trace of two objects of 64 tokens, written and read."""
    steps = [("w", 0, 64), ("w", 1, 64), ("r", 0, 64), ("r", 1, 64)]
    return traces.write(tmp_path_factory.mktemp("small") / "t.parquet", traces.columns(steps))


def test_0_concurrent_allocs_means_unlimited(small: Trace, tmp_path: Path) -> None:
    """kv-cache.py writes 0 for no limit, as a flag and in our recipes."""

    def allocs(trace: Trace, *words: str) -> int | None:
        return resolve_demand(trace, overlay_recipe(trace, parse(*words))).allocs

    assert allocs(small, "--set", "max_concurrent_allocs=0") is None
    assert allocs(small, "--set", "max_concurrent_allocs=unlimited") is None
    assert allocs(small, "--set", "max_concurrent_allocs=2") == 2
    made = here("tracegen", "generate", "--set", "mix.personas=1", "--users", 1, "--requests", 1,
                "--set", "replay.max_concurrent_allocs=0", "-o", tmp_path / "t.parquet")  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert allocs(Trace(tmp_path / "t.parquet")) is None


def test_an_empty_argument_is_refused() -> None:
    sentence(here("replayer", "plan", "t", "--model", ""), "--model is empty")
    sentence(here("replayer", "plan", ""), "the argument after plan is empty")
    sentence(here("analysis", "compare", "a", "--against", ""), "--against is empty")


def test_targets_take_units() -> None:
    @click.command()
    @target_options.target_options
    def record(targets: Targets) -> None:
        recorded.append(targets)

    recorded: list[Targets] = []
    flags = ["--qos-ms", "interactive=0.2s,batch=5m", "--tier-gib-s", "nvme=7GB/s,4", "--tbw", "1.2PB"]
    record.main(flags, standalone_mode=False)
    (targets,) = recorded
    assert (targets.qos_ms["interactive"], targets.qos_ms["batch"], targets.tbw) == (200, 300_000, 1200)
    assert targets.tier_gib_s["nvme"] == pytest.approx((6.519, 4), abs=1e-3)
    with pytest.raises(InputError, match="qos_ms: 'soon' is not a number of milliseconds"):
        record.main(["--qos-ms", "batch=soon"], standalone_mode=False)


def test_traces_take_units(small: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    made = ["generate", "--set", "mix.personas=1", "--users", 1, "--requests", 2, "--duration", "1h", "-o", path]
    assert here("tracegen", *made).returncode == 0
    assert Trace(path).metadata.recipe["duration_s"] == 3600.0
    cut = here("tracegen", "slice", small.path, "--time", "0:2us", "-o", tmp_path / "s.parquet")
    assert cut.returncode == 0, cut.stderr
    assert Trace(tmp_path / "s.parquet").metadata.counts["requests"] == 2
    sentence(here("tracegen", "generate", "--duration", "5 parsecs", "-o", path), "seconds", "90s, 5m or 1h")
