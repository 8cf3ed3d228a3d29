"""The report as a file: well-formed, self-contained, escaped, as typed, and in a browser."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.cli import main
from tests.analysis.report.pages import CASES, NASTY, WIDTHS, altered, tree, words
from tests.support.browser import PAINTED, Browser
from tests.support.crafted_runs import clean
from tests.support.latencies import latencies_known
from tests.support.predicted_runs import measured
from views.svg import COLOURS


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_well_formed_and_has_each_chart_with_its_data(pages: dict[str, Path], case: str) -> None:
    root = tree(pages[case])
    assert len(pages[case].read_bytes()) < (650_000 if case == "one" else 2_000_000)
    figures = root.findall(".//figure")
    assert len(figures) >= 7
    for figure in figures:
        assert len(words(figure.find("figcaption"))) > 40  # type: ignore[arg-type]
        assert figure.findall("details//tbody/tr")


def test_names_and_reasons_are_escaped(pages: dict[str, Path]) -> None:
    page = pages["systems"].read_text()
    assert "<img" not in page
    assert "<script" not in page
    assert NASTY.replace("/", "") in words(tree(pages["systems"]))
    assert "disk </title><script>alert(2)</script>" in words(tree(pages["bad"]))


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of two drives: three trials each, and the old one takes 1.5 times as long."""
    place = tmp_path_factory.mktemp("drives")
    for n, (side, factors) in enumerate({"old": (1.5, 1.52, 1.51), "new": (1.0, 1.01, 1.0)}.items()):
        for trial, factor in enumerate(factors):
            run = measured(clean().slower(factor), started=10 * n + trial)
            run.save(place / side / f"trial_{trial}")
    target = place / "drives.html"
    with latencies_known():
        done = CliRunner().invoke(main, ["report", str(place / "old"), str(place / "new"), "-o", str(target)])
    assert done.exit_code == 0, done.output
    return target


def test_the_page_answers_which_drive_is_better(drives: Path) -> None:
    """Work and time differ by (1.5 × 1.52 × 1.51) ÷ (1 × 1.01 × 1), and its cube root is 1.505."""
    root = tree(drives)
    table = root.find(".//table[@id='table-ratios']")
    assert table is not None
    rows = {words(row[0]): [words(cell) for cell in row[1:]] for row in table.findall("tbody/tr")}
    assert rows["throughput, tok/s"][2] == "1.50 ×"
    assert rows["throughput, tok/s"][-1] == "new is better"
    cards = words(root.find(".//dl[@class='cards']"))  # type: ignore[arg-type]
    assert cards.startswith("Equal work per second 1.50 × 95% interval 1.4")
    assert root.find(".//figure[@id='sides']") is not None


def read_comparison(*arguments: object) -> dict[str, object]:
    with latencies_known():
        done = CliRunner().invoke(main, ["report", *map(str, arguments), "--format", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output).get("comparison", {})
    return found


def test_a_baseline_turns_the_ratios(drives: Path) -> None:
    old, new = (drives.parent / side for side in ("old", "new"))
    found = read_comparison(old, new, "--baseline", new / "trial_0")
    assert (found["baseline"], found["ranking"]) == ("new", ["new", "old"])


def test_equal_runs_of_two_firmwares_are_sides_by_label(replay: Path, tmp_path: Path) -> None:
    runs = [altered(replay, tmp_path / name) for name in ("a1", "a2")]
    assert read_comparison(*runs) == {}
    labels = ["--label", f"before={runs[0]}", "--label", f"after={runs[1]}"]
    assert read_comparison(*runs, *labels)["baseline"] == "before"


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


SMALLEST_TEXT = """Math.min(...[...document.querySelectorAll('.chart text')].map(
  text => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().c, text.getScreenCTM().d)))"""


@pytest.mark.parametrize(("width", "least"), [(1280, 14), (390, 10.5)])
def test_text_in_charts_is_legible(browser: Browser, pages: dict[str, Path], width: int, least: float) -> None:
    browser.open(pages["systems"], width)
    assert browser.value(SMALLEST_TEXT) >= least


def test_dark_mode_and_print_have_their_colours(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    text = "getComputedStyle(document.querySelector(\"svg text[fill='var(--ink)']\")).fill"
    browser.open(pages["one"], 1280)
    assert (browser.value(ground), browser.value(text)) == (get_rgb("paper", 0), get_rgb("ink", 0))
    browser.open(pages["one"], 1280, dark=True)
    assert (browser.value(ground), browser.value(text)) == (get_rgb("paper", 1), get_rgb("ink", 1))
    browser.open(pages["one"], 700, dark=True, media="print")
    assert browser.value(text) == get_rgb("ink", 0)
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.value("document.querySelector('.first .doubt p').checkVisibility()")
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") <= 12


def get_rgb(name: str, theme: int) -> str:
    value = COLOURS[name][theme]
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
    press("Tab", 9)
    assert browser.value("document.activeElement.className") == "scroll"


def get_bottoms(browser: Browser, selector: str) -> list[float]:
    """Return where the elements that a selector finds end, in pixels from the top of the page."""
    code = f"[...document.querySelectorAll('{selector}')].map(one => one.getBoundingClientRect().bottom)"
    found = browser.value(code)
    assert found, selector
    return [float(bottom) for bottom in found]


@pytest.mark.parametrize("case", ["one", "trials", "systems"])
def test_a_laptop_shows_the_answer_without_scrolling(browser: Browser, pages: dict[str, Path], case: str) -> None:
    browser.open(pages[case], 1280, 900)
    cards = () if case == "systems" else (".card .value", ".card")  # these two are not compared
    for selector in ("h1", ".tested", ".state", ".answer", *cards):
        assert max(get_bottoms(browser, f".first {selector}")) <= 900, selector


DOTS = """(() => {
  const marks = [...document.querySelectorAll('#sides path.role-mark, #sides .role-mark path')];
  return marks.filter(mark => mark.querySelector('title')).map(mark => getComputedStyle(mark).fill);
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_ratios_in_the_colour_of_the_better_side(
    browser: Browser, drives: Path, dark: bool
) -> None:
    browser.open(drives, 1280, dark=dark)
    assert browser.complaints() == []
    assert get_rgb("cpu", int(dark)) in browser.value(DOTS)
