"""The forest plot as a chart for slides, and the axis that it shares with the page."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.ratios import Ratio
from analysis.report.sides.chart import draw_forest
from analysis.report.sides.forest import fit_axis
from analysis.report.svg import render_file
from tests.analysis.comparison.crafting import CPU, Craft, compare_found, three

TEXT = "{http://www.w3.org/2000/svg}text"


def test_each_label_is_in_line_with_its_figures(craft: Craft) -> None:
    """A row that is not judged has no dot, and its figures stay beside its label."""
    reads = {"nvme_read_gib_s": 2.0, "nvme_read_p95_ms": 30.0, "nvme_read_bytes": 2 << 30}
    fewer = {"nvme_read_gib_s": 1.0, "nvme_read_p95_ms": 20.0, "nvme_read_bytes": 1 << 30}
    sides = compare_found(
        {
            "drive": three(craft, "d", (1.0, 1.0, 1.0), values=reads),
            "dram": three(craft, "m", (1.5, 1.5, 1.5), conditions=CPU, plan="q", values=fewer),
        }
    )
    plot = draw_forest(sides)
    assert plot is not None
    root = ET.fromstring(render_file(plot.chart, plot.rows, "forest"))
    heights: dict[str, float] = {}

    def walk(element: ET.Element, y: float) -> None:
        found = re.search(r"translate\([^,]*,\s*([-\d.]+)\)", element.get("transform", ""))
        y += float(found[1]) if found else 0.0
        if element.tag == TEXT and element.text:
            heights[element.text] = y
        for child in element:
            walk(child, y)

    walk(root, 0.0)
    for label, value in (("throughput, tok/s", "150"), ("nvme reads, GiB/s", "2.00"), ("nvme reads, P95, ms", "30.0")):
        assert abs(heights[label] - heights[value]) < 8, label


def ratio(value: float, low: float, high: float, better: str) -> Ratio:
    return Ratio("m", "a", "b", better, ratio=value, low=low, high=high)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.sampled_from(("higher", "lower"))),
        min_size=1,
        max_size=6,
    )
)
def test_everything_is_on_the_axis_and_better_is_to_the_right(drawn: list[tuple[float, float, float, str]]) -> None:
    ratios = [ratio(value, value / below, value * above, better) for value, below, above, better in drawn]
    axis = fit_axis(ratios)
    one = axis.place(1.0)
    for each in ratios:
        mark = axis.mark(each)
        assert mark is not None
        at, low, high = (place or 0.0 for place in mark)
        assert 0 <= low <= at + 0.01 <= high + 0.02 <= 100.03
        if abs((each.ratio or 1) - 1) > 1e-3:
            is_better = ((each.ratio or 0) > 1) == (each.better == "higher")
            assert (at > one) == is_better
    places = [place for place, _ in axis.ticks()]
    assert one in places
    assert all(later - earlier >= 12 for earlier, later in itertools.pairwise(places))


def test_ratios_that_are_not_judged_have_no_mark() -> None:
    unjudged = Ratio("m", "a", "b", None, ratio=2.0, low=1.9, high=2.1)
    axis = fit_axis([unjudged])
    assert axis.mark(unjudged) is None
    assert axis.place(1.0) == pytest.approx(50)
