"""Reports of several sets of runs, made once."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from click.testing import CliRunner

from analysis.cli import main
from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import Gathered, gather
from tests.analysis.report.pages import NASTY, altered, slower
from tests.support.command_line import Run
from tests.support.latencies import latencies_known
from tests.support.logs import follow, ranks, samples, write_run
from tests.support.paths import DEMO


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
    trial = slower(replay, place / "trial")
    failed = write_run(
        place / "failed", follow(1), device=samples(1, 3), reason="disk </title><script>alert(2)</script>"
    )
    nasty = altered(replay, place / NASTY.replace("/", ""), model=f"</style><script>{NASTY}", workers=3)
    ranked, _ = ranks(place / "ranked", "complete", "complete")
    many = [altered(replay, place / f"workers-{n}", workers=n) for n in range(100, 109)]
    return {
        "one": [replay],
        "trials": [replay, trial],
        "systems": [replay, trial, nasty],
        "bad": [failed, ranked],
        "many": many,
    }


@pytest.fixture(scope="session")
def gathered(cases: dict[str, list[Path]]) -> dict[str, Gathered]:
    with latencies_known():
        return {name: gather(paths, Targets()) for name, paths in cases.items()}


@contextmanager
def charts_drawn_once() -> Iterator[None]:
    """Draw a chart that several pages have only once: a quarter of them, at 0.1 s of CPU each."""
    drawn: dict[str, str] = {}
    draw = vl_convert.vegalite_to_svg

    def drawn_once(spec: dict[str, Any], **version: str) -> str:
        key = json.dumps(spec, sort_keys=True)
        if key not in drawn:
            drawn[key] = draw(spec, **version)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", drawn_once)
        yield


@pytest.fixture(scope="session")
def pages(gathered: dict[str, Gathered], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pages")
    flags = ["-o", str(place / "one.html"), "--qos-ms", "batch=123456", "--device-gib-s", "10,5"]
    with charts_drawn_once():
        for name, data in gathered.items():
            if name != "one":
                (place / f"{name}.html").write_bytes(export.as_html(data))
        assert CliRunner().invoke(main, ["report", gathered["one"].runs[0].summary.run, *flags]).exit_code == 0
    return {name: place / f"{name}.html" for name in gathered}


@pytest.fixture(scope="session")
def files(cases: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write trials in every format except HTML, by the command line."""
    place = tmp_path_factory.mktemp("files")
    with latencies_known():
        for form in ("csv", "json", "md"):
            call = ["report", *map(str, cases["trials"]), "-o", str(place / f"report.{form}")]
            assert CliRunner().invoke(main, call).exit_code == 0
    return {path.suffix[1:]: path for path in place.iterdir()}
