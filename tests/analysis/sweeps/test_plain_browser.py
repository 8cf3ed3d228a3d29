"""Pages of sweeps and searches in a browser, on a desktop and on a phone."""

import itertools
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.cli import main
from tests.analysis.report.pages import WIDTHS
from tests.analysis.searches.searches import make_step, write_search
from tests.analysis.sweeps.sweeps import cell, write
from tests.support.browser import PAINTED, Browser

POLICIES = ("lru", "s3fifo", "belady")
SIZES = ((1.0, 100), (2.0, 300), (8.0, 700))
FOLD = """(name => {
  const box = document.querySelector(name).getBoundingClientRect();
  return [box.bottom, box.right];
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of several axes and policies, of a single axis, and of a search."""
    place = tmp_path_factory.mktemp("pages")
    grid = [
        cell(at, cpu, hits + 20 * len(policy), policy=policy, storage_capacity_gb=drive, write_bytes_nvme=hits << 24)
        for at, (policy, drive, (cpu, hits)) in enumerate(
            (policy, drive, size) for policy in POLICIES for drive in (0.0, 10.0) for size in SIZES
        )
    ]
    steps = [make_step(4, 80.0), make_step(6, 112.0), make_step(8, 150.0)]
    files = {
        "grid": write(place / "grid.parquet", grid),
        "line": write(place / "line.parquet", [cell(at, cpu, hits) for at, (cpu, hits) in enumerate(SIZES)]),
        "search": write_search(place / "autoscale.json", steps, 4),
    }
    made = {}
    for name, file in files.items():
        made[name] = place / f"{name}.html"
        done = CliRunner().invoke(main, ["report", str(file), "-o", str(made[name])])
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["grid", "line", "search"])
def test_a_browser_shows_the_answer_first_and_draws_every_chart(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    answer_bottom, answer_right = browser.value(f"{FOLD}('.answer')")
    assert answer_right <= width
    cards = "dl.cards" if width > 600 else ".card .value"
    assert max(answer_bottom, browser.value(f"{FOLD}('{cards}')")[0]) <= (900 if width > 600 else 844)
    browser.value("document.querySelectorAll('main > details').forEach(one => one.open = true)")
    drawn = browser.value(PAINTED)
    assert len(drawn) == browser.value("document.querySelectorAll('figure').length")
    for figure, right, panels in drawn:
        assert right <= width, figure
        assert panels, figure
        assert all(panels), f"{figure}: a panel is empty: {panels}"


def test_names_of_lines_have_the_colours_of_their_lines(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["grid"], 1280)
    colour = (
        "(word => getComputedStyle([...document.querySelectorAll('svg text')].find(e => e.textContent === word)).fill)"
    )
    found = {browser.value(f"{colour}('{name}')") for name in (*POLICIES, "bound")}
    assert len(found) == 1 + len(POLICIES)
    boxes = "[...document.querySelectorAll('#cpu_mem_gb-tokens svg text')].filter(e => %s.includes(e.textContent))"
    tops = browser.value(f"{boxes % [*POLICIES, 'bound']}.map(e => e.getBoundingClientRect().top)")
    assert len(tops) == 2 * (1 + len(POLICIES))
    first = sorted(tops[: 1 + len(POLICIES)])
    assert all(lower - upper >= 14 for upper, lower in itertools.pairwise(first)), "names do not overlap"
