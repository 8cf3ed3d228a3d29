"""Charts as SVG, and answers as pages: drawn, well-formed, self-contained, escaped."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from tests.support.browser import PAINTED, Browser
from views.answer import Answer, Axis, Chart, Column, DoubtLine, Figure, Kind, Rule, Table
from views.charts import render_chart, save_charts
from views.formats import FORMATS
from views.svg import COLOURS

NASTY = "<img src=x onerror=alert(1)>&\"'"
TIME = Axis(title="time, s")
MS = Axis(title="ms (log scale)", is_log=True)
SHARE = Axis(title="hits", is_share=True)
NAMES = Axis(title="")


def make_chart(kind: Kind, name: str, rows: list[dict[str, object]], **fields: object) -> Chart:
    axes = {"x": TIME, "y": MS} | fields
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return Chart(name=name, title=f"{name} {NASTY}", caption="How to read it.", kind=kind, rows=frame, **axes)


def list_points(*series: str, panels: tuple[str, ...] = ("reads", "writes")) -> list[dict[str, object]]:
    return [
        {
            "panel": panel,
            "series": one,
            "x": float(x),
            "y": 1.0 + x + at,
            "low": 0.5 + x,
            "high": 3.0 + x,
        }
        for panel in panels
        for at, one in enumerate(series)
        for x in range(1, 5)
    ]


CHARTS = (
    make_chart(
        "lines",
        "load",
        [row | {"hollow": row["x"] == 4} for row in list_points("P50", "P95")],
        rules=(Rule(label="target", y=3.0, panel="reads"), Rule(label="answer", x=2.0)),
    ),
    make_chart("bands", "latency", list_points("cpu")),
    make_chart("steps", "throughput", list_points("old", "new"), dashed=frozenset({"new"})),
    make_chart(
        "lines",
        "capacities",
        [{"series": one, "x": x, "y": 0.1 * x} for one in ("lru", "lfu") for x in (0.0, 1.0, 8.0)],
        x=Axis(title="GiB", is_log=True, ticks=(0, 1, 8)),
        y=SHARE,
    ),
    make_chart("points", "front", list_points("front", "others", panels=("",))),
    make_chart(
        "bars",
        "spent",
        [{"y": tier, "series": part, "x": 2.0} for tier in ("cpu", "nvme") for part in ("device", "queue")],
        y=NAMES,
    ),
    make_chart(
        "intervals",
        "forest",
        [
            {"y": "rate", "x": 1.4, "low": 1.3, "high": 1.5, "text": "1.4 ×"},
            {"y": "P99", "x": None},
        ],
        x=Axis(title="times", is_ratio=True),
        y=NAMES,
        rules=(Rule(label="1", x=1.0),),
    ),
    make_chart(
        "dots",
        "targets",
        [{"y": "batch", "x": 3.0, "low": 1.0, "high": 9.0, "target": 20.0}],
        x=MS,
        y=NAMES,
    ),
)
ANSWER = Answer(
    title=NASTY,
    sentence="New serves more.",
    kicker="a report",
    subject=("a drive",),
    state="VALID",
    tone="good",
    figures=(
        Figure(name="rate", label="Throughput", value=1234.5, unit="tok/s", better="higher"),
        Figure(name="hits", label="Hits", value=None, note="nothing was read"),
        Figure(name="best", label="Best", value=None, text="sieve"),
    ),
    tables=(
        Table(title="Sizes", columns=(Column("policy"), Column("hit rate", "share")), rows=(("lru", 0.5), (NASTY, None)), marked=frozenset({0})),
        Table(title="Remarks", columns=(), rows=(), notes=("A remark.",)),
        Table(title="Folded", columns=(Column("a"),), rows=(("b",),), is_folded=True, section="More"),
    ),
    charts=CHARTS,
    doubts=(
        DoubtLine(headline="short run", text="3 s", advice="pass `--duration 60`"),
        DoubtLine(headline="failed", text="disk", advice="repair it", invalidates=True),
    ),
    next=("replayer run",),
)  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(FORMATS["html"](ANSWER))
    return path


def read_words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_a_page_is_well_formed_and_self_contained(page: Path) -> None:
    text = page.read_text()
    root = ET.fromstring(text)  # elements that are not closed, and text that is not escaped, fail here
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


def test_a_page_shows_the_answer_before_its_parts(page: Path) -> None:
    root = ET.fromstring(page.read_text())
    words = read_words(root[1])
    order = [
        "a report",
        "✓ VALID",
        "Invalidates: failed",
        "1,234",
        "not measured",
        "sieve",
        "short run",
        "Sizes",
        "load",
        "Folded",
    ]
    places = [words.index(part) for part in order]
    assert places == sorted(places)
    assert [read_words(row) for row in root.findall(".//tr[@class='marked']")] == ["lru50.0%"]


def test_every_chart_has_a_drawing_with_tooltips_and_its_data(page: Path) -> None:
    figures = ET.fromstring(page.read_text()).findall(".//figure")
    assert [figure.get("id") for figure in figures] == [chart.name for chart in CHARTS]
    for figure, chart in zip(figures, CHARTS, strict=True):
        assert (figure.find(".//svg[@role='img'][@aria-label]//title") is None) == (chart.kind in ("bands", "steps"))
        assert len(figure.findall("details//tbody/tr")) == len(chart.rows)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_every_panel(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    drawn = browser.value(PAINTED)
    assert len(drawn) == len(CHARTS)
    for name, right, panels in drawn:
        assert right <= width, name
        assert all(panels), f"{name}: a panel is empty: {panels}"


def test_charts_are_saved_in_the_colours_on_white(tmp_path: Path) -> None:
    files = save_charts(CHARTS[:1], tmp_path / "charts")
    svg, png = files
    assert ET.fromstring(svg.read_text()).findtext("{http://www.w3.org/2000/svg}title") == CHARTS[0].title
    assert "var(" not in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")


def test_colours_of_series_are_given_or_their_own_or_of_the_palette() -> None:
    rows = list_points("cpu", "other", "given", panels=("",))
    svg = render_chart(make_chart("steps", "colours", rows, colours={"given": "grey"}))
    assert {f"var(--{name})" for name in ("cpu", "blue", "grey")} <= set(re.findall(r"var\(--\w+\)", svg))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""

    def luminance(hexed: str) -> float:
        parts = [int(hexed[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_have_contrast(theme: int) -> None:
    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    assert len({pair[0] for pair in COLOURS.values()}) == len(colours)
    paper = colours.pop("paper")
    for name, value in colours.items():
        least = {"ink": 7.0, "muted": 4.5, "grid": 1.1}.get(name, 2.4)
        assert contrast(value, paper) >= least, name
