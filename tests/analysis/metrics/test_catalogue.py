"""The catalogue: an entry with unit, kind, direction and samples for each number of a summary."""

import json
import re
from pathlib import Path

from analysis.metrics import headlines
from analysis.metrics.catalogue import CATALOGUE, FAMILIES, describe
from analysis.metrics.metric import COUNT_UNITS, places_of
from analysis.submission.rules import RULES
from analysis.summary.summary import summarise
from tests.analysis import metric_oracle
from tests.analysis.metrics.shared_logs import ranks
from tests.support.command_line import Run
from tests.support.paths import ROOT

UNITS = {
    *COUNT_UNITS, "s", "ms", "tok/s", "GiB/s", "requests/s", "bytes/day", "per day", "years", "cores", "share",
    "ratio", "",
}  # fmt: skip


# Completeness


def test_every_number_of_a_summary_has_an_entry_and_every_entry_is_in_a_summary(
    tmp_path: Path,
) -> None:
    for place in (metric_oracle.DATA / "run", ranks(tmp_path / "ranks")):
        summary = summarise(place).to_json()
        numbers = {
            name for name, value in summary.items() if isinstance(value, int | float) and not isinstance(value, bool)
        }
        assert numbers <= set(CATALOGUE)
        assert set(CATALOGUE) <= set(summary)


def test_counts_of_the_work_are_whole_numbers_and_other_work_is_not() -> None:
    summary = summarise(metric_oracle.DATA / "run").to_json()
    for name, metric in CATALOGUE.items():
        if metric.kind == "work" and summary[name] is not None:
            assert isinstance(summary[name], int) == metric.is_equal_work, name


def test_every_entry_is_complete() -> None:
    for family in FAMILIES:
        assert family.unit in UNITS
        assert family.definition.endswith(".")
        assert set(places_of(family.label)) <= set(places_of(family.name))
    for metric in CATALOGUE.values():
        assert "{" not in metric.name + metric.label + (metric.counted_by or "")
        assert metric.counted_by is None or CATALOGUE[metric.counted_by].unit in ("moves", "requests")


def test_every_metric_is_named_by_a_view_a_page_or_code() -> None:
    """A number that nobody asks for goes: of each family, something names a member, or forms its name."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
    words = [page.read_text() for page in pages] + [family.definition for family in FAMILIES]
    for entries in (*headlines.SUMMARY.values(), headlines.CLAIMED, headlines.CLAIMED_WORK, headlines.RANKED):
        words += entries
    sources = [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "replayer").rglob("*.py")]
    words += [path.read_text() for path in sources if path.parent.name != "metrics"]
    named = set(re.findall(r"[\w{}]+", " ".join(words)))
    formed = [
        re.compile(re.sub(r"{\w+}", "[a-z]+", name))
        for name in named
        if "{" in name and len(re.sub(r"{\w+}|_", "", name)) >= 4
    ]
    counters = {metric.counted_by for metric in CATALOGUE.values()}
    for family in FAMILIES:
        names = {metric.name for metric in family.expand()}
        is_formed = any(form.fullmatch(name) for form in formed for name in names)
        assert names & (named | counters) or is_formed, family.name


def test_labels_and_units_tell_metrics_apart() -> None:
    described = [(metric.label, metric.unit, metric.percentile) for metric in CATALOGUE.values()]
    assert sorted({one for one in described if described.count(one) > 1}) == []


# Direction


def test_a_system_is_better_only_by_its_speed() -> None:
    for name in ("hit_rate", "rag_hit_rate", "nvme_write_amplification", "endurance_years"):
        assert describe(name).better is not None
        assert describe(name).better_system is None
    assert describe("ttfb_p95_ms").better_system == "lower"
    assert describe("nvme_read_gib_s").better_system == "higher"


def test_times_and_rates_that_speed_determines_have_a_direction() -> None:
    undirected = {"idle_s", "mean_inflight", "drained_bytes", "bottleneck", "nvme_busy_share", "unfinished_requests"}
    for metric in CATALOGUE.values():
        is_time = metric.unit in ("s", "ms") or "_wait_share" in metric.name
        if metric.kind == "speed" and metric.name not in undirected:
            assert metric.better == ("lower" if is_time else "higher"), metric.name


# Samples


def test_samples_are_counted_by_metrics() -> None:
    assert all(metric.counted_by for metric in CATALOGUE.values() if metric.least_samples > 1)


# Selections


def test_selections_name_metrics() -> None:
    named = {
        *headlines.COMPARED, *headlines.TOTALS,
        *headlines.CLAIMED, *headlines.CLAIMED_WORK, *headlines.RANKED,
        *(entry.strip(" +=") for entries in headlines.SUMMARY.values() for entry in entries),
    }  # fmt: skip
    assert named <= set(CATALOGUE)
    assert {option.primary for rules in RULES.values() for option in rules.options} <= set(headlines.RANKED)


# The command


def test_the_command_describes_a_metric(run: Run) -> None:
    (entry,) = json.loads(run("analysis", "metrics", "nvme_read_p95_ms", "--json").stdout)
    assert entry["name"] == "{tier}_{direction}_{stat}_ms"
    assert (entry["unit"], entry["better"], entry["kind"]) == ("ms", "lower", "speed")
    assert entry["samples"]["nvme_read_p95_ms"] == {"counted_by": "nvme_reads", "least": 100}
    assert entry["name"] in run("analysis", "metrics", "nvme_read_p95_ms").stdout
