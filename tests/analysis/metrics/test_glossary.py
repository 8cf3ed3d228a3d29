"""The glossary and docs/metrics.md define every name.

`python -m tests.analysis.metrics.test_glossary` writes docs/metrics.md anew."""

import re

from click.testing import CliRunner

from analysis.cli import main
from analysis.metrics import METRICS
from analysis.summary import glossary
from analysis.summary.distributions import TABLES
from replayer.schema import LOG_ENUMS, TIERS
from tests.analysis import metric_oracle
from tests.analysis.metrics.comparing import log_of, numbers
from tests.support.logs import make_rows
from tests.support.paths import ROOT


def test_the_glossary_defines_every_name_and_no_other() -> None:
    names = [name for term in glossary.terms() for name in term.expanded()]
    assert len(names) == len(set(names)), "a name is defined twice"
    assert set(names) == set(numbers(log_of(make_rows(1, 50))))
    for metric, function in METRICS.items():
        assert set(function(log_of(make_rows(1, 50))).collect_schema()) == {
            name for term in glossary.terms() if term.metric == metric for name in term.expanded()
        }
        assert function.__name__ == metric
        assert glossary.about(metric)
    assert all(re.search(r"\w", term.definition) for term in glossary.terms())


UNITS = "s ms cpu bytes tokens tok_s gib_s rate ratio amplification years efficiency share sec per_s day compliance utilisation"
COUNTS = (
    "requests tokens_generated nvme_tokens_processed mean_inflight evictions logged_ops failed_moves upstream_moves"
    " compulsory_misses left_objects"
)


WITHOUT = {
    "bottleneck",
    "hit_rate_reuse",
    "hit_rate_refs",
    "hit_rate_requests",
    "hit_rate_prompt",
    "hit_rate_sessions",
    "hit_rate_sessions_p5",
    "hit_rate_sessions_p50",
    "kept",
    "reads",
    "writes",
    *metric_oracle.MOVES.values(),
}


def test_names_carry_their_units() -> None:
    for name in (name for term in glossary.terms() for name in term.expanded()):
        of, _, plain = name.partition("_")
        counted = {name, plain if of in (*TIERS, *LOG_ENUMS["qos"]) else name} & {*COUNTS.split(), *WITHOUT}
        assert name.endswith(tuple(f"_{unit}" for unit in UNITS.split())) or counted, name


DOC = ROOT / "docs" / "metrics.md"
WRITE = "; python -m tests.analysis.metrics.test_glossary writes docs/metrics.md anew"


def generated() -> dict[str, str]:
    """What stands between the markers of docs/metrics.md, by section."""
    told = CliRunner().invoke(main, ["metrics", "--markdown"], catch_exceptions=False).stdout.strip()
    rows = [f"| `{name}` | {' '.join((table.__doc__ or '').split())} |" for name, table in TABLES.items()]
    return {"metrics": told, "tables": "\n".join(["| table | rows |", "|---|---|", *rows])}


def marked(text: str) -> dict[str, str]:
    return dict(re.findall(r"<!-- (\w+): begin -->\n(.*?)\n?<!-- \1: end -->", text, re.S))


def test_the_docs_say_what_the_code_says() -> None:
    assert marked(DOC.read_text()) == generated(), WRITE


def write_docs() -> None:
    text = DOC.read_text()
    for name, told in generated().items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        text = head + begin + told + "\n" + rest[rest.index(end) :]
    DOC.write_text(text)


if __name__ == "__main__":
    write_docs()
