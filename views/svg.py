"""Charts as SVG: within a page, which gives their colours, or as files of their own."""

import re
from typing import Final
from xml.etree import ElementTree as ET

import vl_convert

# The width of every chart in pixels; a phone scrolls it sideways
WIDTH: Final = 1120
TEXT_SIZE: Final = 15
# Pixels of a PNG per pixel of its SVG
PIXELS: Final = 2

INK: Final = "#1d2330"
MUTED: Final = "#59606d"
GRID: Final = "#e4e7eb"
PAPER: Final = "#fdfdfc"
# Colours by name: on white, and on dark. Those on white differ, as they tell the name
COLOURS: Final[dict[str, tuple[str, str]]] = {
    "ink": (INK, "#e7eaf0"),
    "muted": (MUTED, "#a4abb8"),
    "grid": (GRID, "#333a47"),
    "paper": (PAPER, "#14181f"),
    "gpu": ("#007a5a", "#3ecf9f"),
    "cpu": ("#0066aa", "#5cb3f0"),
    "nvme": ("#c84e00", "#ff9c52"),
    "blue": ("#4477aa", "#7fb0e0"),  # from here Paul Tol's bright scheme: colour-blind readers see seven
    "red": ("#d9566a", "#ff8f9f"),
    "green": ("#228833", "#5fc46f"),
    "yellow": ("#b3a125", "#e3d56a"),
    "purple": ("#aa3377", "#e07fb8"),
    "cyan": ("#44b1d6", "#8adcf5"),
    "grey": ("#9a9fa8", "#80868f"),
    "brown": ("#7a5230", "#c79d74"),
}

_NAMES: Final = {light: name for name, (light, _) in COLOURS.items()}
_FONT: Final = "Arial, Helvetica, Liberation Sans, sans-serif"
_TEXT: Final = {"labelFont": _FONT, "titleFont": _FONT, "labelFontSize": TEXT_SIZE, "titleFontSize": TEXT_SIZE}
_LINES: Final = {"gridColor": GRID, "domainColor": GRID, "tickColor": GRID}
_MUTED: Final = {"labelColor": MUTED, "titleColor": MUTED, "titleFontWeight": "normal"}
_LEGEND: Final = {"orient": "top", "title": None, "labelColor": INK, "labelLimit": 360, "columnPadding": 28}
_HEADER: Final = {"labelColor": INK, "labelFontWeight": "bold", "labelPadding": 3, "title": None}
CONFIG: Final = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": _TEXT | _MUTED | _LINES | {"labelLimit": 380},
    "header": _TEXT | _HEADER,
    "legend": _TEXT | _LEGEND | {"symbolStrokeWidth": 3, "symbolSize": 140, "offset": 6},
    "line": {"strokeWidth": 2},
    "facet": {"spacing": 24},
}
_SVG: Final = "{http://www.w3.org/2000/svg}"
# Classes of panels and marks
_KEPT: Final = {"cell", "role-mark"}
_DROPPED: Final = ("role", "aria-roledescription", "aria-hidden", "pointer-events", "stroke-miterlimit")
# Attributes that say nothing: the font is set once per chart
_DEFAULTS: Final = {"font-family": _FONT, "font-size": f"{TEXT_SIZE}px", "font-weight": "normal", "opacity": "1"}


def get_colour(name: str) -> str:
    """Return the colour on white, which charts use."""
    return COLOURS[name][0]


def render_svg(spec: dict[str, object], prefix: str, label: str) -> str:
    """Render a chart as an element of a page.

    Args:
        spec: a chart of Vega-Lite; `description` of its marks becomes their tooltip.
        prefix: prefix of the ids inside, unique in the page.
        label: text that a screen reader reads.
    """
    drawn = vl_convert.vegalite_to_svg(spec | {"config": CONFIG}, vl_version="v6.4")
    root = ET.fromstring(drawn)  # noqa: S314 (our own renderer's)
    for element in root.iter():
        _clean(element, prefix)
    size = {name: root.get(name, "") for name in ("viewBox", "width")}
    font = {name: _DEFAULTS[name] for name in ("font-family", "font-size")}
    root.attrib = {**size, **font, "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def render_files(spec: dict[str, object], title: str) -> tuple[str, bytes]:
    """Render a chart in the colours on white as an SVG and as a PNG file of twice its size."""
    svg = re.sub(r"var\(--(\w+)\)", lambda name: get_colour(name[1]), render_svg(spec, "", title))
    root = ET.fromstring(svg)  # noqa: S314 (our own)
    _, _, width, height = root.get("viewBox", "").split()
    root.attrib |= {"xmlns": _SVG[1:-1], "width": width, "height": height}
    name = ET.Element("title")
    name.text = title
    root.insert(0, name)
    root.insert(1, ET.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"}))
    svg = ET.tostring(root, encoding="unicode")
    return svg, vl_convert.svg_to_png(svg, scale=PIXELS)


def _clean(element: ET.Element, prefix: str) -> None:
    """Turn labels of marks into tooltips, colours into the page's, and drop the rest."""
    element.tag = element.tag.removeprefix(_SVG)
    attributes = element.attrib
    label = attributes.pop("aria-label", None)
    if label and element.tag != "g":
        ET.SubElement(element, "title").text = label
    kept = {}
    if named := _KEPT & set(attributes.pop("class", "").split()):
        kept["class"] = named.pop()
    for name, value in attributes.items():
        if name in _DROPPED or _DEFAULTS.get(name) == value:
            continue
        if name in ("fill", "stroke") and value in _NAMES:
            kept[name] = f"var(--{_NAMES[value]})"
        elif name == "id":
            kept[name] = prefix + value
        elif name in ("d", "transform"):
            kept[name] = re.sub(r"\d+\.\d{2,}", lambda decimal: f"{float(decimal[0]):.1f}", value)
        else:
            kept[name] = value.replace("url(#", f"url(#{prefix}")
    element.attrib = kept
