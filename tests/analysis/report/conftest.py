"""Reports of several sets of runs, made once a session."""

from pathlib import Path

import pytest

from analysis.log.targets import Targets
from analysis.report.answer import make_report
from analysis.report.systems import Gathered, gather
from tests.analysis.comparison.crafting import craft
from tests.analysis.report.pages import NASTY, altered
from tests.support.command_line import Run
from tests.support.latencies import latencies_known
from tests.support.logs import follow, ranks, samples, write_run
from tests.support.paths import DEMO
from views.answer import Answer
from views.formats import FORMATS

__all__ = ["craft"]


@pytest.fixture(scope="session")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a VALID run."""
    place = tmp_path_factory.mktemp("reported")
    run("tracegen", "generate", DEMO, "--requests", 80, "-o", place / "trace.parquet")
    flags = ["--cache-dir", place / "cache", "--pace", "open", "--speedup", 100]
    run("replayer", "run", place / "trace.parquet", *flags, "-o", place / "replay")
    return place / "replay"


@pytest.fixture(scope="session")
def cases(replay: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    place = tmp_path_factory.mktemp("cases")
    trials = [replay, altered(replay, place / "trial")]
    failed = write_run(
        place / "failed", follow(1), device=samples(1, 3), reason="disk </title><script>alert(2)</script>"
    )
    nasty = altered(replay, place / NASTY.replace("/", ""), model=f"</style><script>{NASTY}", workers=3)
    ranked, _ = ranks(place / "ranked", "complete", "complete")
    return {
        "one": [replay],
        "trials": trials,
        "systems": [*trials, nasty],
        "bad": [failed, ranked],
    }


@pytest.fixture(scope="session")
def gathered(cases: dict[str, list[Path]]) -> dict[str, Gathered]:
    with latencies_known():
        return {name: gather(paths, Targets()) for name, paths in cases.items()}


@pytest.fixture(scope="session")
def answers(gathered: dict[str, Gathered]) -> dict[str, Answer]:
    return {name: make_report(data) for name, data in gathered.items()}


@pytest.fixture(scope="session")
def pages(answers: dict[str, Answer], replay: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pages")
    for name, answer in answers.items():
        (place / f"{name}.html").write_text(FORMATS["html"](answer))
    return {name: place / f"{name}.html" for name in answers}
