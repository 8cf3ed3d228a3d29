"""The table of what is better, which compare, autoscale and assess share, and how many samples a value rests on."""

import json
import re

import pytest

from analysis.assessment import criteria as assess
from analysis.metrics.catalogue import better, counted_by, judged, least_samples
from analysis.summary import glossary
from tests.support.command_line import Run

NAMES = {name: term for term in glossary.terms() for name in term.expanded()}
UNDIRECTED = (
    r"generation_\w+_ms|idle_s|(\w+_)?cpu_share|\w+_left_share|run_delay_(s|share)|throttled_s|longest_gap_s|paused_s"
    r"|foreign_io_share"
)


def test_names_of_one_definition_go_one_way() -> None:
    for name, term in NAMES.items():
        assert better(name) == term.better, name


def test_every_time_has_a_direction_and_every_rate_the_other() -> None:
    for name in (name for name in NAMES if re.search(r"_(ms|s|share)$", name)):
        way = "higher" if name.endswith(("_tok_s", "_gib_s", "_per_s")) else "lower"
        assert better(name) == (None if re.fullmatch(UNDIRECTED, name) else way), name


@pytest.mark.parametrize(
    "name",
    [
        *("cache_io_tokens_per_sec", "hit_rate_reuse", "hit_rate_tokens", "nvme_hit_rate", "system_hit_rate"),
        *("interactive_compliance", "nvme_read_efficiency", "wall_clock_tok_s", "endurance_years"),
    ],
)
def test_more_is_better_of_rates_and_shares(name: str) -> None:
    assert (NAMES[name].better, better(name)) == ("higher", "higher")


def test_counts_bytes_and_names_have_none() -> None:
    for name in ("requests", "nvme_read_bytes", "bottleneck", "device_utilisation", "nvme_write_bytes_per_day"):
        assert better(name) is None


def test_systems_are_not_judged_by_the_work() -> None:
    """Hit rates may have a target, but follow from the trace and the capacities."""
    assert [judged(name) for name in ("hit_rate", "rag_hit_rate", "nvme_write_amplification")] == [None] * 3
    assert (judged("ttfb_p95_ms"), judged("nvme_read_gib_s")) == ("lower", "higher")


def test_criteria_of_profiles_go_the_same_way() -> None:
    for criteria in assess.PROFILES.values():
        for one in criteria:
            assert better(one.metric) == {"<": "lower", ">": "higher"}[one.relation], one.metric


def test_the_counts_of_samples_are_metrics() -> None:
    counts = {name: count for name in NAMES if (count := counted_by(name))}
    assert set(counts.values()) <= set(NAMES)
    assert counts["ttfb_p95_ms"] == "requests"
    assert counts["nvme_read_device_p99_ms"] == "nvme_reads"
    assert counts["batch_ttfb_p95_ms"] == counts["batch_compliance"] == "batch_requests"
    assert counted_by("nvme_read_eviction_p95_ms") is None
    known = {"ttfb_p50_ms": 10, "ttfb_p95_ms": 100, "e2e_p99_ms": 500, "batch_kept": 100, "ttfb_max_ms": 1}
    assert {name: least_samples(name) for name in known} == known


def test_metrics_tell_people_and_machines(run: Run) -> None:
    (term,) = json.loads(run("analysis", "metrics", "nvme_read_p95_ms", "--json").stdout)
    assert term["better"] == "lower"
    assert term["samples"]["nvme_read_p95_ms"] == {"counted_by": "nvme_reads", "least": 100}
    told = run("analysis", "metrics", "nvme_read_p95_ms").stdout
    assert "{tier}_{side}_{stat}_ms (lower is better): total" in told
