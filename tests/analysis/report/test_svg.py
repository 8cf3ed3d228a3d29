"""Charts as SVG: what is left out changes nothing that is seen."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.svg import shorten_path

TENTHS = st.integers(-30, 30).map(lambda tenths: tenths / 10)


@given(st.lists(st.tuples(TENTHS, TENTHS), min_size=1, max_size=20))
def test_a_shortened_path_visits_the_same_points(points: list[tuple[float, float]]) -> None:
    path = "L".join(f"{x},{y}" for x, y in points)
    short = shorten_path(f"M{path}")
    assert follow(short) == points
    assert len(short) <= len(path) + 1
    assert ".0" not in short


def follow(path: str) -> list[tuple[float, float]]:
    """List the points of a path of M, L, H and V."""
    x = y = 0.0
    visited = []
    for command, numbers in re.findall(r"([MLHV])([^MLHV]+)", path):
        values = [float(number) for number in numbers.split(",")]
        x = x if command == "V" else values[0]
        y = y if command == "H" else values[-1]
        visited.append((x, y))
    return visited


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M0,6.1L7.4,6.1L7.4,96.0L8,97", "M0,6.1H7.4V96L8,97"),
        ("M0,0L10,0L10,5L0,5Z", "M0,0H10V5H0Z"),
        ("M0,0.05L0.05,10.05", "M0,0.05L0.05,10.05"),
        ("M0,2.0A2,2,0,1,1,0,-2.0", "M0,2A2,2,0,1,1,0,-2"),
    ],
)
def test_paths(path: str, short: str) -> None:
    assert shorten_path(path) == short
