"""The glossary and docs/metrics.md define every metric.

`python -m tests.analysis.metrics.test_glossary` writes the tables of docs/metrics.md again.
"""

import re

from click.testing import CliRunner

from analysis.cli import main
from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE, RUN
from analysis.summary import glossary
from analysis.summary.distributions import TABLES
from tests.analysis.metrics.comparing import log_of, numbers
from tests.support.logs import make_rows
from tests.support.paths import ROOT


def test_the_glossary_defines_every_metric_once() -> None:
    names = [name for term in glossary.terms() for name in term.expanded()]
    assert len(names) == len(set(names)), "a name is defined twice"
    log = log_of(make_rows(1, 50))
    assert set(names) - {metric.name for metric in RUN} == set(numbers(log))
    for group, function in METRICS.items():
        assert set(function(log).collect_schema()) == {
            name for term in glossary.terms() if term.metric == group for name in term.expanded()
        }
        assert glossary.about(group)
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


DOC = ROOT / "docs" / "metrics.md"
WRITE = "; python -m tests.analysis.metrics.test_glossary writes its tables again"


def generated() -> dict[str, str]:
    """Return the text between the markers of docs/metrics.md, by section."""
    glossary_text = CliRunner().invoke(main, ["metrics", "--markdown"], catch_exceptions=False).stdout.strip()
    rows = [f"| `{name}` | {' '.join((table.__doc__ or '').split())} |" for name, table in TABLES.items()]
    return {"metrics": glossary_text, "tables": "\n".join(["| table | rows |", "|---|---|", *rows])}


def marked(text: str) -> dict[str, str]:
    return dict(re.findall(r"<!-- (\w+): begin -->\n(.*?)\n?<!-- \1: end -->", text, re.S))


def test_the_docs_say_what_the_code_says() -> None:
    assert marked(DOC.read_text()) == generated(), WRITE


def write_docs() -> None:
    text = DOC.read_text()
    for name, section in generated().items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        text = head + begin + section + "\n" + rest[rest.index(end) :]
    DOC.write_text(text)


if __name__ == "__main__":
    write_docs()
