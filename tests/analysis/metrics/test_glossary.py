"""The catalogue describes every metric once, under a name that ends in its unit."""

from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE, FAMILIES
from tests.analysis.metrics.comparing import log_of
from tests.support.logs import make_rows


def test_every_metric_is_described_once_and_by_the_function_that_computes_it() -> None:
    metrics = [metric for family in FAMILIES for metric in family.expand()]
    assert len(metrics) == len(CATALOGUE), "a name is described twice"
    log = log_of(make_rows(1, 50))
    for group, function in METRICS.items():
        assert set(function(log).collect_schema()) == {metric.name for metric in metrics if metric.group == group}


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
