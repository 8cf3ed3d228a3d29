"""Altair charts as SVG inside a page, without scripts.

The page's style sheet gives their colours, so that they suit light, dark and print. A chart is
drawn once, as wide as a desktop page; a phone scrolls it sideways. Parts of vl-convert's output
that a page cannot use are removed: backgrounds, roles and labels for scripts, long decimals, and
whatever repeats.
"""

import re
from typing import Any, Final
from xml.etree import ElementTree as ET

import altair as alt
import polars as pl
import vl_convert

WIDTH: Final = 1120
"""The width of every chart in pixels."""
TEXT_SIZE: Final = 15

INK: Final = "#1d2330"
MUTED: Final = "#59606d"
GRID: Final = "#e4e7eb"
PAPER: Final = "#fdfdfc"
COLOURS: Final[dict[str, tuple[str, str, str]]] = {
    "ink": (INK, "#e7eaf0", "text"),
    "muted": (MUTED, "#a4abb8", "labels"),
    "grid": (GRID, "#333a47", "rules"),
    "paper": (PAPER, "#14181f", "the page"),
    "gpu": ("#007a5a", "#3ecf9f", "a tier"),
    "cpu": ("#0066aa", "#5cb3f0", "a tier"),
    "nvme": ("#c84e00", "#ff9c52", "a tier"),
    "blue": ("#4477aa", "#7fb0e0", "Paul Tol's bright scheme, and similar colours on dark ground"),
    "red": ("#d9566a", "#ff8f9f", "the same"),
    "green": ("#228833", "#5fc46f", "the same"),
    "yellow": ("#b3a125", "#e3d56a", "the same"),
    "purple": ("#aa3377", "#e07fb8", "the same"),
    "cyan": ("#44b1d6", "#8adcf5", "the same"),
    "grey": ("#9a9fa8", "#80868f", "evictions and recomputation"),
    "brown": ("#7a5230", "#c79d74", "an eighth run"),
}
"""Colours by name: on white, on dark, and their use.

All colours on white are distinct, as they identify the name in a rendered chart.
"""

_NAMES: Final = {light: name for name, (light, _, _) in COLOURS.items()}
_FONT: Final = "Arial, Helvetica, Liberation Sans, sans-serif"
_TEXT: Final = {"labelFont": _FONT, "titleFont": _FONT, "labelFontSize": TEXT_SIZE, "titleFontSize": TEXT_SIZE}
_CONFIG: Final[dict[str, Any]] = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": _TEXT
    | {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "labelLimit": 260,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
    },
    "header": _TEXT | {"labelColor": INK, "labelFontWeight": "bold", "labelPadding": 3, "title": None},
    "legend": _TEXT
    | {
        "orient": "top",
        "title": None,
        "labelColor": INK,
        "labelLimit": 360,
        "columnPadding": 28,
        "symbolStrokeWidth": 3,
        "symbolSize": 140,
        "offset": 6,
    },
    "line": {"strokeWidth": 2},
    "facet": {"spacing": 24},
}
_SVG: Final = "{http://www.w3.org/2000/svg}"
_CLASSES: Final = {"cell", "role-mark"}  # panels and marks
_DROPPED: Final = (
    "role",
    "aria-roledescription",
    "aria-hidden",
    "pointer-events",
    "stroke-miterlimit",
)
_DEFAULTS: Final = {
    "font-family": _FONT,
    "font-size": f"{TEXT_SIZE}px",
    "font-weight": "normal",
    "opacity": "1",
    "transform": "translate(0,0)",
    "x2": "0",
    "y2": "0",
}
"""Attributes that say nothing: the font is set once per chart."""
_INHERITED: Final = ("stroke", "stroke-width", "text-anchor")


def get_colour(name: str) -> str:
    """Return the colour on white, which charts use."""
    return COLOURS[name][0]


def render_svg(chart: alt.TopLevelMixin, rows: pl.DataFrame, prefix: str, label: str) -> str:
    """Render a chart as an element of a page.

    Args:
        chart: an Altair chart over the data set `rows`; `description` of its marks becomes their tooltip.
        rows: that data set.
        prefix: prefix of the ids inside, unique in the page.
        label: text that a screen reader reads.
    """
    values = rows.with_columns(pl.selectors.float().round_sig_figs(5)).to_dicts()
    spec = chart.to_dict(validate=False) | {"config": _CONFIG, "datasets": {"rows": values}}
    root = ET.fromstring(vl_convert.vegalite_to_svg(spec, vl_version="v6.4"))  # noqa: S314 (our own renderer's)
    for element in root.iter():
        _clean(element, prefix)
    _prune(root)
    _simplify(root)
    size = {"viewBox": root.get("viewBox", ""), "width": root.get("width", "")}
    font = {name: _DEFAULTS[name] for name in ("font-family", "font-size")}
    root.attrib = {**size, **font, "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def render_file(chart: alt.TopLevelMixin, rows: pl.DataFrame, title: str) -> str:
    """Render a chart as an SVG file of its own, in the colours on white.

    Args:
        chart: as for `render_svg`.
        rows: as for `render_svg`.
        title: its accessible name.
    """
    page = render_svg(chart, rows, "", title)
    svg = re.sub(r"var\(--(\w+)\)", lambda name: get_colour(name[1]), page)
    root = ET.fromstring(svg)  # noqa: S314 (our own)
    _, _, width, height = root.get("viewBox", "").split()
    root.attrib |= {"xmlns": _SVG[1:-1], "width": width, "height": height}
    name = ET.Element("title")
    name.text = title
    root.insert(0, name)
    root.insert(1, ET.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"}))
    return ET.tostring(root, encoding="unicode")


def _clean(element: ET.Element, prefix: str) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    attributes = element.attrib
    label = attributes.pop("aria-label", None)
    if label and element.tag != "g":
        title = ET.SubElement(element, "title")
        title.text = label
    for name in _DROPPED:
        attributes.pop(name, None)
    if role := _CLASSES & set(attributes.pop("class", "").split()):
        attributes["class"] = role.pop()
    for name, value in attributes.items():
        if name in ("fill", "stroke") and value in _NAMES:
            attributes[name] = f"var(--{_NAMES[value]})"
        elif name == "id":
            attributes[name] = prefix + value
        elif name in ("d", "transform"):
            short = re.sub(r"\d+\.\d{2,}", lambda decimal: f"{float(decimal[0]):.1f}", value)
            attributes[name] = shorten_path(short) if name == "d" else short
        attributes[name] = attributes[name].replace("url(#", f"url(#{prefix}")
    for name in [name for name, value in attributes.items() if _DEFAULTS.get(name) == value]:
        del attributes[name]


def shorten_path(path: str) -> str:
    """Return a path without zeros after the point; lines along an axis name one coordinate."""
    path = re.sub(r"\.0(?!\d)", "", path)
    if not re.fullmatch(r"(?:[ML][-\d.]+,[-\d.]+|Z)+", path):
        return path
    short, last = [], ("", "")
    for command, x, y in re.findall(r"([MLZ])(?:([^,]+),([^MLZ]+))?", path):
        if command == "L" and y == last[1]:
            short.append(f"H{x}")
        elif command == "L" and x == last[0]:
            short.append(f"V{y}")
        else:
            short.append(f"{command}{x},{y}" if x else command)
        last = (x, y)
    return "".join(short)


def _prune(element: ET.Element) -> None:
    """Remove elements that draw nothing: empty paths and empty groups."""
    for child in list(element):
        _prune(child)
        invisible = child.tag == "path" and (child.get("display") == "none" or not (child.get("d") or ""))
        blank = child.tag == "path" and child.get("fill") is None and child.get("stroke") is None and not len(child)
        if invisible or (blank and not _inherits(element)) or (child.tag == "g" and not len(child)):
            element.remove(child)


def _simplify(group: ET.Element) -> None:
    """Move attributes that all children have to their group, and unwrap groups without any."""
    for index, child in reversed(list(enumerate(group))):
        _simplify(child)
        if child.tag == "g" and not child.attrib:
            group[index : index + 1] = list(child)
    for name in _INHERITED if len(group) > 1 else ():
        values = {child.get(name) for child in group}
        if len(values) == 1 and None not in values:
            group.set(name, values.pop() or "")
            for child in group:
                del child.attrib[name]


def _inherits(group: ET.Element) -> bool:
    return group.get("fill") not in (None, "none") or group.get("stroke") is not None or group.tag == "clipPath"
