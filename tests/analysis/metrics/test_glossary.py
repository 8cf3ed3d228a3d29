"""The glossary defines every metric."""

import re

from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE, GROUPS, RUN
from analysis.summary import glossary
from tests.analysis.metrics.comparing import log_of, numbers
from tests.support.logs import make_rows


def test_the_glossary_defines_every_metric_once() -> None:
    names = [name for term in glossary.terms() for name in term.expanded()]
    assert len(names) == len(set(names)), "a name is defined twice"
    log = log_of(make_rows(1, 50))
    assert set(names) - {metric.name for metric in RUN} == set(numbers(log))
    for group, function in METRICS.items():
        assert set(function(log).collect_schema()) == {
            name for term in glossary.terms() if term.metric == group for name in term.expanded()
        }
    assert all(group.about for group in GROUPS)
    assert all(re.search(r"\w", term.definition) for term in glossary.terms())


def test_metrics_with_one_definition_share_unit_kind_and_direction() -> None:
    for term in glossary.terms():
        assert len({(one.unit, one.kind, one.better) for one in term.families}) == 1, term.names


ENDINGS = {
    "s": ("_s",),
    "ms": ("_ms",),
    "tok/s": ("_tok_s", "_tokens_per_sec"),
    "GiB/s": ("_gib_s",),
    "requests/s": ("_per_s",),
    "bytes": ("_bytes",),
    "bytes/day": ("_bytes_per_day",),
    "per day": ("_per_day",),
    "years": ("_years",),
    "cores": ("_cpu", "_cores"),
}


def test_names_end_in_their_units() -> None:
    """Counts, shares and ratios end in what they count or divide."""
    for name, metric in CATALOGUE.items():
        if metric.unit in ENDINGS:
            assert name.endswith(ENDINGS[metric.unit]), name
        else:
            assert not name.endswith(("_s", "_ms", "_bytes", "_per_day", "_years")), name
