"""The site that `make docs` builds: without warnings, and in a browser."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import Browser
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the command that `make docs` runs; its flag makes a link to nothing an error."""
    place = tmp_path_factory.mktemp("site")
    makefile = (ROOT / "Makefile").read_text()
    (told,) = re.findall(r"python (-m sphinx .*--fail-on-warning.*) docs build/docs/html", makefile)
    flags = told.replace("build/docs", str(place)).split()
    command = [sys.executable, *flags, str(ROOT / "docs"), str(place / "html")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["index", "two-drives", "what-if", "metrics", "first-look"])
def test_a_browser_shows_the_page(browser: Browser, site: Path, page: str, width: int, *, dark: bool) -> None:
    browser.open(site / f"{page}.html", width, dark=dark)
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert browser.value("document.images.length") >= {"what-if": 2, "first-look": 3}.get(page, 0)
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)")


def test_a_link_has_the_pages_name(browser: Browser, site: Path) -> None:
    browser.open(site / "what-if.html", 1280)
    links = browser.value("[...document.querySelectorAll('article a.reference')].map(one => one.innerText)")
    assert "Predictions" in links
    assert not [link for link in links if link.endswith(".md")]


def test_the_search_finds_a_metric(browser: Browser, site: Path) -> None:
    """Without a server."""
    browser.open(site / "search.html", 1280)
    browser.value("Search.performSearch('hit_rate_prompt')")
    found = """new Promise(done => { const seen = () => {
        const links = [...document.querySelectorAll('#search-results li a')].map(one => one.innerText);
        links.some(link => link.startsWith('Metrics')) ? done(links) : setTimeout(seen, 50); }; seen(); })"""
    answer = browser.call("Runtime.evaluate", expression=found, awaitPromise=True, returnByValue=True)
    assert answer["result"]["value"]
