"""The report: read as a file, and opened in a browser; its numbers in every format."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from click.testing import CliRunner

from analysis.between import together
from analysis.cli import main
from analysis.log import Targets
from analysis.percentiles import bracketed
from analysis.report import against, drawing, export, wording
from analysis.report.gather import Gathered, gather
from analysis.summary import summarise
from analysis.trials import statistics
from tests.support.browser import BINARY, Browser, chromium
from tests.support.command_line import Run
from tests.support.latencies import latencies_known
from tests.support.logs import follow, ranks, samples, write_run
from tests.support.paths import DEMO

Dict = dict[str, Any]
NASTY = "<img src=x onerror=alert(1)>&\"'"
CASES = ("one", "trials", "systems", "bad", "many")
WIDTHS = (1280, 390)


@pytest.fixture(scope="session")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VALID run."""
    place = tmp_path_factory.mktemp("reported")
    run("tracegen", "generate", DEMO, "--requests", 80, "-o", place / "trace.parquet")
    flags = ["--make-cache-dir", "--cache-dir", place / "cache", "--pace", "open", "--speedup", 100]
    run("replayer", "run", place / "trace.parquet", *flags, "-o", place / "replay")
    return place / "replay"


def altered(source: Path, place: Path, **conditions: Any) -> Path:
    """The same run under other conditions, or with a model of another name."""
    shutil.copytree(source, place)
    info = json.loads((place / "run.json").read_text())
    info["conditions"] |= conditions
    (place / "run.json").write_text(json.dumps(info))
    return place


def slower(source: Path, place: Path) -> Path:
    """A second trial, in which reads took 10% longer."""
    shutil.copytree(source, place)
    for part in (place / "moves").iterdir():
        log = pl.read_parquet(part)
        extra = pl.col("read_ns") // 10
        log = log.with_columns(pl.col("end_ns") + extra, pl.col("read_ns") + extra)
        log.with_columns(pl.col("move").cast(pl.Categorical)).write_parquet(part)
    return place


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


@pytest.fixture(scope="session")
def pages(gathered: dict[str, Gathered], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pages")
    for name, data in gathered.items():
        if name != "one":
            (place / f"{name}.html").write_bytes(export.as_html(data))
    flags = ["-o", str(place / "one.html"), "--qos-ms", "batch=123456", "--device-gib-s", "10,5"]
    assert CliRunner().invoke(main, ["report", str(gathered["one"].runs[0].summary["run"]), *flags]).exit_code == 0
    return {name: place / f"{name}.html" for name in gathered}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not BINARY:
        pytest.skip("no Chromium is installed")
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def tree(page: Path) -> ET.Element:
    """The page as XML, which it also is: what is not closed or not escaped fails here."""
    return ET.fromstring(page.read_text())


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


# As a file


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_sound_and_alone(pages: dict[str, Path], case: str) -> None:
    text, root = pages[case].read_text(), tree(pages[case])
    assert len(text.encode()) < 5_000_000
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            if name.split("}")[-1] in ("href", "src"):
                assert value.removeprefix("#") in ids
            assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", value))
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org)", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("case", CASES)
def test_every_figure_has_a_title_a_reading_and_its_data(pages: dict[str, Path], case: str) -> None:
    figures = tree(pages[case]).findall(".//figure")
    assert len(figures) >= 10
    for figure in figures:
        assert words(figure.find("h3"))  # type: ignore[arg-type]
        assert len(words(figure.find("figcaption"))) > 40  # type: ignore[arg-type]
        assert len(figure.findall(".//svg[@role='img'][@aria-label]")) == 2
        for table in figure.findall("details//table"):
            width = len(table.findall("thead//th"))
            rows = table.findall("tbody/tr")
            assert rows, table.findtext("caption")
            assert all(len(row) == width for row in rows)
        assert figure.findall("details//table")


def test_axes_name_their_units(pages: dict[str, Path]) -> None:
    for figure in tree(pages["one"]).findall(".//figure"):
        if figure.get("id") == "device":  # each panel has another, in its title
            continue
        for svg in figure.findall(".//svg"):
            texts = {words(text) for text in svg.iter("text")}
            units = r"\b(ms|s|GiB/s|GiB|tok/s|seconds|moves|share)\b"
            assert any(re.search(units, text) for text in texts), figure.get("id")
            assert all("log scale" in words(svg) for _ in [0] if figure.get("id") in ("latency", "tail", "by_size"))


def test_verdict_and_doubts_come_first(pages: dict[str, Path]) -> None:
    text = words(tree(pages["one"])[1])
    order = [
        "✓ VALID:",
        "Doubts",
        "throughput by the wall clock",
        "Throughput over time",
        "Trace, plan and time",
        "What these",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    bad = words(tree(pages["bad"])[1])
    assert "✗ NOT VALID" in bad
    assert bad.index("✗ NOT VALID") < bad.index("✗ Invalidates: incomplete") < bad.index("Doubt:")


def test_the_headline_is_the_summary(pages: dict[str, Path], replay: Path) -> None:
    summary = summarise(replay)
    rows = {
        words(row[0]).split()[-1]: words(row[2])
        for row in tree(pages["one"]).findall(".//table[@class='headline']/tbody/tr")
    }
    assert len(rows) > 12
    assert rows == {name: bracketed(name, summary, wording.shown(name, summary[name])) for name in rows}
    assert rows["nvme_read_p99_ms"].startswith("(")  # of few samples
    verdict = words(tree(pages["one"]).find(".//p[@class='verdict good']"))  # type: ignore[arg-type]
    for name in ("wall_clock_tok_s", "decode_read_gib_s", "nvme_read_p95_ms", "hit_rate"):
        assert wording.shown(name, summary[name]) in verdict
    assert "beats recomputing below" in verdict


def test_every_metric_and_every_definition_is_there(pages: dict[str, Path], replay: Path) -> None:
    text = words(tree(pages["one"]))
    known = [name for name, value in summarise(replay).items() if isinstance(value, float)]
    assert [name for name in known if name not in text] == []
    assert "Placement was decided by the plan" in text
    assert summarise(replay)["trace_fingerprint"] in text


def test_what_users_write_stays_text(pages: dict[str, Path]) -> None:
    page = pages["systems"].read_text()
    assert "<img" not in page
    assert "<script" not in page
    assert NASTY.replace("/", "") in words(tree(pages["systems"]))
    assert "disk </title><script>alert(2)</script>" in words(tree(pages["bad"]))


def test_trials_are_one_system_and_have_intervals(gathered: dict[str, Gathered], pages: dict[str, Path]) -> None:
    data = gathered["trials"]
    assert len(data.systems) == 1
    compared = against.compared(data).filter(pl.col("metric") == "wall_clock_tok_s")
    speeds = [run.summary["wall_clock_tok_s"] for run in data.runs]
    assert speeds[0] > speeds[1]
    expected = statistics(speeds)
    assert compared["mean"].unique().to_list() == [expected.mean]
    assert (compared["low"][0], compared["high"][0]) == (expected.low, expected.high)
    text = words(tree(pages["trials"]))
    assert "Trials of one configuration." in text
    assert "2 trials: VALID" in text
    assert len(gathered["systems"].systems) == 2


def test_an_invalid_trial_is_shown_but_not_counted(replay: Path, tmp_path: Path) -> None:
    broken = slower(replay, tmp_path / "broken")
    info = json.loads((broken / "run.json").read_text()) | {"status": "failed", "reason": "a test"}
    (broken / "run.json").write_text(json.dumps(info))
    data = gather([replay, broken], Targets())
    compared = against.compared(data).filter(pl.col("metric") == "wall_clock_tok_s")
    assert compared["valid"].to_list() == [True, False]
    assert compared["mean"].to_list() == [summarise(replay)["wall_clock_tok_s"]] * 2
    assert next(iter(data.shown.values())).name == replay.name
    assert wording.state(data) == "NOT VALID: 1 of 2 runs"


def test_nothing_but_warm_up_has_no_charts(tmp_path: Path) -> None:
    rows = follow(3, 60, warm_ops=10**6)
    data = gather([write_run(tmp_path / "warm", rows)], Targets())
    page = tmp_path / "warm.html"
    page.write_bytes(export.as_html(data))
    assert not tree(page).findall(".//figure")
    assert "nothing is left to measure" in words(tree(page))
    assert export.as_xlsx(data)


def test_targets_reach_the_page(pages: dict[str, Path]) -> None:
    text = words(tree(pages["one"]))
    assert "batch 123,456 ms" in text
    assert "nvme_read_efficiency" in text


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(hexed: str) -> float:
        parts = [int(hexed[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_can_be_seen(theme: int) -> None:
    colours = {name: pair[theme] for name, pair in drawing.COLOURS.items()}
    assert len({pair[0] for pair in drawing.COLOURS.values()}) == len(colours)
    paper = colours.pop("paper")
    for name, value in colours.items():
        least = {"ink": 7.0, "muted": 4.5, "grid": 1.1}.get(name, 2.4)
        assert contrast(value, paper) >= least, name


# In a browser

PAINTED = """(() => {
  const painted = mark => [...mark.children].some(e => {
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const ink = colour => colour && colour !== 'none' && !/, 0\\)$/.test(colour);
    return +style.opacity > 0 && (ink(style.stroke) || (ink(style.fill) && +style.fillOpacity > 0))
      && (box.width > 0 || box.height > 0);
  });
  const seen = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
  return seen.map(svg => {
    const cells = [...svg.querySelectorAll('.cell')];
    return [svg.closest('figure').id, svg.getBoundingClientRect().right,
      (cells.length ? cells : [svg]).map(cell => [...cell.querySelectorAll('.role-mark')].some(painted))];
  });
})()"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_browser_draws_every_chart(browser: Browser, pages: dict[str, Path], case: str, width: int) -> None:
    browser.open(pages[case], width)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    drawn = browser.value(PAINTED)
    assert len(drawn) == browser.value("document.querySelectorAll('figure').length")
    for name, right, panels in drawn:
        assert right <= width, name
        assert panels, name
        assert all(panels), f"{name}: a panel is empty: {panels}"


def test_dark_and_print(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    text = "getComputedStyle(document.querySelector('svg text')).fill"
    browser.open(pages["one"], 1280)
    light = (browser.value(ground), browser.value(text))
    browser.open(pages["one"], 1280, dark=True)
    dark = (browser.value(ground), browser.value(text))
    assert light[0] == dark_of("paper", 0)
    assert dark == (dark_of("paper", 1), dark_of("ink", 1))
    assert light[1] == dark_of("ink", 0)
    browser.open(pages["one"], 700, dark=True, media="print")
    assert browser.value(text) == dark_of("ink", 0)
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") <= 12


def dark_of(name: str, theme: int) -> str:
    value = drawing.COLOURS[name][theme]
    return f"rgb({', '.join(str(int(value[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_a_keyboard_reaches_the_data(browser: Browser, pages: dict[str, Path]) -> None:
    def press(key: str, code: int) -> None:
        for kind in ("rawKeyDown", "char", "keyUp") if key == "Enter" else ("rawKeyDown", "keyUp"):
            text = {"text": "\r"} if kind == "char" else {}
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    browser.open(pages["one"], 1280)
    press("Tab", 9)
    assert browser.value("document.activeElement.className") == "skip"
    browser.value("document.querySelector('figure summary').focus()")
    press("Enter", 13)
    assert browser.value("document.querySelector('figure details').open")
    assert browser.value("document.querySelector('figure details table').getBoundingClientRect().height") > 100
    press("Tab", 9)
    assert browser.value("document.activeElement.className") == "scroll"


# Other formats


def expected(summary: Dict) -> dict[str, float | None]:
    return {n: v if v is None else float(v) for n, v in summary.items() if v is None or isinstance(v, int | float)}


@pytest.fixture(scope="session")
def files(cases: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Trials in every format but HTML, by the command line."""
    place = tmp_path_factory.mktemp("files")
    with latencies_known():
        for form in ("csv", "parquet", "json", "xlsx", "md"):
            call = ["report", *map(str, cases["trials"]), "-o", str(place / f"report.{form}")]
            assert CliRunner().invoke(main, call).exit_code == 0
    return {path.suffix[1:]: path for path in place.iterdir()}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_tidy_form_is_the_summaries(files: dict[str, Path], cases: dict[str, list[Path]], form: str) -> None:
    table = pl.read_csv(files[form], infer_schema_length=None) if form == "csv" else pl.read_parquet(files[form])
    assert table.columns == ["run", "metric", "value", "unit"]
    for path in cases["trials"]:
        own = table.filter(pl.col("run") == path.name)
        assert dict(own.select("metric", "value").iter_rows()) == expected(summarise(path))
    units = dict(table.select("metric", "unit").iter_rows())
    assert units["nvme_read_gib_s"] == "GiB/s"
    assert units["e2e_p95_ms"] == "ms"
    assert units["elapsed_s"] == "s"
    assert not units["hit_rate"]


def test_json_is_summaries_with_tables(files: dict[str, Path], cases: dict[str, list[Path]]) -> None:
    found = json.loads(files["json"].read_text())
    summaries = together([summarise(path) for path in cases["trials"]])
    for summary, one in zip(summaries, found["runs"], strict=True):
        tables = one.pop("tables")
        assert one == summary
        assert sum(row["gib"] for row in tables["traffic"] if row["tier"] == "nvme" and row["side"] == "read") == (
            pytest.approx(one["nvme_read_bytes"] / 2**30)
        )


def test_a_workbook_holds_the_same(files: dict[str, Path], cases: dict[str, list[Path]]) -> None:
    sheets = workbook(files["xlsx"])
    assert {"metrics", "doubts", "latency", "bandwidth_over_time"} <= set(sheets)
    head, *rows = sheets["metrics"]
    assert head == ["run", "metric", "value", "unit"]
    for path in cases["trials"]:
        values = {row[1]: row[2] if len(row) > 2 else None for row in rows if row[0] == path.name}
        for name, value in expected(summarise(path)).items():
            assert (values[name] in (None, "")) if value is None else math.isclose(float(values[name]), value), name
    assert sheets["doubts"][0][:2] == ["run", "kind"]
    kinds = {row[1] for row in sheets["doubts"][1:]}
    summaries = together([summarise(path) for path in cases["trials"]])
    assert kinds == {doubt["kind"] for summary in summaries for doubt in summary["doubts"]}


def workbook(path: Path) -> dict[str, list[list[Any]]]:
    """Sheets by name, read from the file's XML: cells by column, words for shared strings."""
    import zipfile

    ns = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(path) as book:
        shared = ["".join(t.text or "" for t in item.iter(f"{{{ns['m']}}}t")) for item in xml(book, "sharedStrings")]
        names = [sheet.get("name") for sheet in xml(book, "workbook").iter(f"{{{ns['m']}}}sheet")]
        found = {}
        for i, name in enumerate(names, 1):
            rows = []
            for row in xml(book, f"worksheets/sheet{i}").iter(f"{{{ns['m']}}}row"):
                cells: list[Any] = []
                for cell in row:
                    letters = re.match("[A-Z]+", cell.get("r", ""))
                    column = sum((ord(c) - 64) * 26**k for k, c in enumerate(reversed(letters[0]))) - 1  # type: ignore[index]
                    value = cell.findtext("m:v", None, ns)
                    cells += [None] * (column - len(cells))
                    cells.append(shared[int(value)] if cell.get("t") == "s" and value else value)
                rows.append(cells)
            found[str(name)] = rows
        return found


def xml(book: Any, name: str) -> ET.Element:
    return ET.fromstring(book.read(f"xl/{name}.xml"))


def test_markdown_is_short_and_says_it(files: dict[str, Path], gathered: dict[str, Gathered]) -> None:
    text = files["md"].read_text()
    assert text.startswith("**VALID**\n")
    assert len(text.splitlines()) < 60
    assert "| throughput by the wall clock | tok/s |" in text
    nasty = export.as_markdown(gathered["systems"]).decode()
    assert "<img" not in nasty.replace("\\<", "")
    assert export.as_markdown(gathered["bad"]).decode().startswith("**NOT VALID**\n")


# The command


def test_text_goes_to_the_terminal(run: Run, replay: Path) -> None:
    done = run("analysis", "report", replay, "--format", "json")
    assert json.loads(done.stdout)["runs"][0]["run"] == str(replay)


def test_a_file_is_replaced_only_by_force_and_whole(replay: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.csv"
    page.write_text("mine")
    call = ["report", str(replay), "-o", str(page)]
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 2
    assert "exists; name another file with -o, or pass --force." in refused.output
    assert page.read_text() == "mine"
    assert CliRunner().invoke(main, [*call, "--force"]).exit_code == 0
    assert page.read_text().startswith("run,metric,value,unit")
    assert list(tmp_path.iterdir()) == [page]


def test_what_is_no_file_of_its_own_is_never_replaced(replay: Path, tmp_path: Path) -> None:
    """Pipes and devices, a run's own files; a link stays a link."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "target.csv"
    os.mkfifo(pipe)
    target.write_text("mine")
    link.symlink_to(target)
    before = {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}
    for output, said in (
        (pipe, "is no regular file"),
        (replay / "run.json", "lies in the run"),
        (replay / "new", "lies in"),
    ):
        done = CliRunner().invoke(main, ["report", str(replay), "--force", "--format", "csv", "-o", str(output)])
        assert (done.exit_code, said in done.output) == (2, True), done.output
    assert pipe.is_fifo()
    assert before == {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}
    assert CliRunner().invoke(main, ["report", str(replay), "--force", "-o", str(link)]).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("run,metric,value,unit")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["metrics"], ["report", "--format", "md"], ["summary"], ["sql"]])
def test_a_terminal_on_a_full_disk(replay: Path, command: list[str]) -> None:
    name, *flags = command
    run = [] if name == "metrics" else [str(replay)]
    query = ["select * from moves"] if name == "sql" else []
    with Path("/dev/full").open("wb") as full:
        call = [sys.executable, "-m", "analysis", name, *run, *query, *flags]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "no file and no format; name a file with -o report.html"),
        (["--format", "html"], "--format html is not for a terminal; name a file with -o report.html."),
        (["--format", "xlsx"], "-o report.xlsx"),
        (["-o", "report.pdf"], "report.pdf names no format by its suffix"),
        (["-o", "nowhere/report.html"], "there is no folder nowhere"),
        (["-o", ".", "--format", "html"], "is a folder"),
        (["-o", "r.html", "--qos-ms", "urgent=1"], "urgent"),
        (["-o", "r.html", "--device-gib-s", "1"], "two numbers"),
    ],
)
def test_wrong_calls_end_in_one_sentence(
    replay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report", str(replay), *flags])
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_runs_that_cannot_be_read_leave_no_file(replay: Path, tmp_path: Path) -> None:
    for runs in ([tmp_path / "nothing"], [replay, replay]):
        done = CliRunner().invoke(main, ["report", *map(str, runs), "-o", str(tmp_path / "r.html")])
        assert done.exit_code == 2
        assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_other_commands_do_not_wait_for_charts(run: Run, replay: Path) -> None:
    import subprocess
    import sys

    told = "import sys, analysis.cli; print([n for n in ('altair', 'vl_convert', 'xlsxwriter', 'jinja2') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
