"""The site that `make docs` builds: without warnings, and in a browser."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import Browser
from tests.support.paths import ROOT


def build(source: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Build with the command that `make docs` runs."""
    (told,) = re.findall(r"^docs:.*\n\t\$\(BIN\)/python (-m sphinx .*) docs build/docs/html$", MAKEFILE, re.M)
    flags = told.replace("build/docs", str(place)).split()
    command = [sys.executable, *flags, str(source), str(place / "html")]
    return subprocess.run(command, check=False, capture_output=True, text=True)


MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    done = build(ROOT / "docs", place)
    assert done.returncode == 0, done.stderr
    return place / "html"


def test_a_link_to_nothing_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.md", "*.ipynb"))
    (tmp_path / "docs" / "index.md").write_text("# A\n\n## B\n- [C](c.md): a page\n")
    (tmp_path / "docs" / "c.md").write_text("# C\n\nSee [D](d.md), [here](#c) and [there](#e).\n")
    (tmp_path / "docs" / "f.md").write_text("# F\n")
    done = build(tmp_path / "docs", tmp_path)
    assert done.returncode == 1
    warnings = [line.partition("WARNING: ")[2] for line in done.stderr.splitlines() if "WARNING: " in line]
    assert len(warnings) == 3, done.stderr
    for word in ("d.md", "'e'", "any toctree"):
        assert any(word in line for line in warnings), done.stderr


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


def test_the_search_finds_a_metric(browser: Browser, site: Path) -> None:
    """Without a server."""
    browser.open(site / "search.html", 1280)
    browser.value("Search.performSearch('hit_rate_prompt')")
    found = """new Promise(done => { const seen = () => {
        const links = [...document.querySelectorAll('#search-results li a')].map(one => one.innerText);
        links.some(link => link.startsWith('Metrics')) ? done(links) : setTimeout(seen, 50); }; seen(); })"""
    answer = browser.call("Runtime.evaluate", expression=found, awaitPromise=True, returnByValue=True)
    assert answer["result"]["value"]
