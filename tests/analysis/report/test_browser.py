"""The report in a browser."""

from pathlib import Path

import pytest

from analysis.report import svg
from tests.analysis.report.pages import CASES, WIDTHS
from tests.support.browser import PAINTED, Browser


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
    light = (browser.value(ground), browser.value(text))
    browser.open(pages["one"], 1280, dark=True)
    dark = (browser.value(ground), browser.value(text))
    assert light[0] == get_rgb("paper", 0)
    assert dark == (get_rgb("paper", 1), get_rgb("ink", 1))
    assert light[1] == get_rgb("ink", 0)
    browser.open(pages["one"], 700, dark=True, media="print")
    assert browser.value(text) == get_rgb("ink", 0)
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") <= 12


def get_rgb(name: str, theme: int) -> str:
    value = svg.COLOURS[name][theme]
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


def test_a_phone_shows_the_first_figure_without_scrolling(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["one"], 390, 844)
    assert get_bottoms(browser, ".card .value")[0] <= 844


def test_print_shows_the_advice_of_doubts(browser: Browser, pages: dict[str, Path]) -> None:
    is_seen = "document.querySelector('.first .doubt p').checkVisibility()"
    browser.open(pages["one"], 1280)
    assert not browser.value(is_seen)
    browser.open(pages["one"], 700, media="print")
    assert browser.value(is_seen)
