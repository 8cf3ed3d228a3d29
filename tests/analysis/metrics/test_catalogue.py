"""The catalogue: an entry with unit, kind, direction and samples for each number of a summary."""

import json
import re
from pathlib import Path

import pytest

from analysis.metrics import DECLARED, METRICS, headlines
from analysis.metrics.catalogue import CATALOGUE, GROUPS, describe
from analysis.metrics.metric import COUNT_UNITS, places_of
from analysis.submission.rules import RULES
from analysis.summary.summary import summarise
from tests.analysis import metric_oracle
from tests.analysis.metrics.shared_logs import ranks
from tests.support.command_line import Run
from tests.support.paths import ROOT

FAMILIES = [family for group in GROUPS for family in group.families]
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


def test_a_docstring_defines_exactly_the_metrics_that_are_declared() -> None:
    for function, families in DECLARED.items():
        body = (function.__doc__ or "").partition("\n\n")[2]
        defined = [name for line in re.findall(r"^    (\S[^:\n]*): ", body, re.M) for name in line.split(", ")]
        assert defined == [family.name for family in families]
        assert METRICS[function.__name__] is function


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_entry_is_complete(family: object) -> None:
    (found,) = [one for one in FAMILIES if one is family]
    assert found.unit in UNITS
    assert found.definition.endswith(".")
    assert found.group
    assert set(places_of(found.label)) <= set(places_of(found.name))
    for metric in found.expand():
        assert "{" not in metric.name + metric.label + metric.short + (metric.counted_by or "")
        assert metric.family == found.name
        assert metric.counted_by is None or CATALOGUE[metric.counted_by].unit in (
            "moves",
            "requests",
        )


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


def test_no_module_takes_a_unit_or_a_direction_from_the_end_of_a_name() -> None:
    """Conditions such as usable_bytes are not metrics, and may be told by their names."""
    endings = r"_(?:ms|s|gib_s|tok_s|per_s|per_sec|bytes|tokens|share|rate|compliance|efficiency|years|per_day)\""
    rule = re.compile(rf"(?:endswith|removesuffix|fullmatch)\(.*{endings}")
    for folder in ("analysis", "replayer/experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = [line for line in path.read_text().splitlines() if rule.search(line)]
            assert [line for line in lines if "usable_bytes" not in line] == [], path


# Direction


def test_a_system_is_better_only_by_its_speed() -> None:
    for metric in CATALOGUE.values():
        assert metric.better_system == (metric.better if metric.kind == "speed" else None), metric.name
    for name in ("hit_rate", "rag_hit_rate", "nvme_write_amplification", "endurance_years"):
        assert describe(name).better is not None
        assert describe(name).better_system is None
    assert describe("ttfb_p95_ms").better_system == "lower"
    assert describe("nvme_read_gib_s").better_system == "higher"


def test_times_and_rates_that_speed_determines_have_a_direction() -> None:
    undirected = {"idle_s", "mean_inflight", "drained_bytes", "bottleneck", "nvme_busy_share"}
    undirected.add("unfinished_requests")
    for metric in CATALOGUE.values():
        if metric.kind == "speed" and metric.name not in undirected:
            assert metric.better == (
                "lower" if metric.unit in ("s", "ms") or "_wait_share" in metric.name else "higher"
            )


# Samples


def test_samples_are_counted_by_metrics() -> None:
    assert all(metric.counted_by for metric in CATALOGUE.values() if metric.least_samples > 1)


# Selections


def test_selections_name_metrics() -> None:
    named = {
        *headlines.COMPARED, *headlines.TOTALS, *headlines.REPORT,
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
