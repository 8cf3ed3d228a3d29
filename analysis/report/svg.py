"""Altair charts as SVG inside a page: coloured by its style sheet, hence light, dark and print alike; no script.

Vega-Lite is rendered here and now, by vl-convert, twice per chart: for a column of a desktop page, and for a phone.
What its renderer leaves that a page cannot use is removed: backgrounds, roles and labels for script, long decimals.
"""

import re
from typing import Any, Final
from xml.etree import ElementTree as ET

import altair as alt
import polars as pl
import vl_convert

WIDE: Final = 560
NARROW: Final = 350

INK, MUTED, GRID, PAPER = "#1d2330", "#59606d", "#e4e7eb", "#fdfdfc"
COLOURS: Final[dict[str, tuple[str, str, str]]] = {
    "ink": (INK, "#e7eaf0", "text"),
    "muted": (MUTED, "#a4abb8", "labels"),
    "grid": (GRID, "#333a47", "rules"),
    "paper": (PAPER, "#14181f", "the page"),
    "gpu": ("#007a5a", "#3ecf9f", "a tier"),
    "cpu": ("#0066aa", "#5cb3f0", "a tier"),
    "nvme": ("#c84e00", "#ff9c52", "a tier"),
    "blue": ("#4477aa", "#7fb0e0", "Paul Tol's bright scheme, and its like on dark ground"),
    "red": ("#d9566a", "#ff8f9f", "the same"),
    "green": ("#228833", "#5fc46f", "the same"),
    "yellow": ("#b3a125", "#e3d56a", "the same"),
    "purple": ("#aa3377", "#e07fb8", "the same"),
    "cyan": ("#44b1d6", "#8adcf5", "the same"),
    "grey": ("#9a9fa8", "#80868f", "what is not work: evictions, recomputation"),
    "brown": ("#7a5230", "#c79d74", "an eighth run"),
}
"""By name: on white, on dark, what for. No two alike on white: there the colour is the key to the name."""

_NAMES: Final = {light: name for name, (light, _, _) in COLOURS.items()}
_FONT: Final = "Arial, Helvetica, Liberation Sans, sans-serif"
_TEXT: Final = {"labelFont": _FONT, "titleFont": _FONT, "labelFontSize": 11, "titleFontSize": 11}
_CONFIG: Final[dict[str, Any]] = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": _TEXT
    | {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
    },
    "header": _TEXT | {"labelColor": INK, "labelFontWeight": "bold", "labelPadding": 3, "title": None},
    "legend": _TEXT
    | {"orient": "top", "title": None, "labelColor": INK, "symbolStrokeWidth": 2, "symbolSize": 60, "offset": 4},
    "line": {"strokeWidth": 1.6},
    "facet": {"spacing": 14},
}
_SVG: Final = "{http://www.w3.org/2000/svg}"
_CLASSES: Final = {"cell", "role-mark"}  # panels, and what stands for data
_DROPPED: Final = ("role", "aria-roledescription", "aria-hidden", "pointer-events", "stroke-miterlimit")


def colour(name: str) -> str:
    """A colour's key, for charts."""
    return COLOURS[name][0]


def svg(chart: alt.TopLevelMixin, rows: pl.DataFrame, prefix: str, told: str) -> str:
    """A chart as an element to put into a page.

    Args:
        chart: an Altair chart over the data set `rows`; `description` of its marks becomes what a pointer is told.
        rows: that data set.
        prefix: of ids inside, to be unlike all others of the page.
        told: what a screen reader says instead of it.
    """
    values = rows.with_columns(pl.selectors.float().round_sig_figs(5)).to_dicts()
    spec = chart.to_dict(validate=False) | {"config": _CONFIG, "datasets": {"rows": values}}
    root = ET.fromstring(vl_convert.vegalite_to_svg(spec, vl_version="v6.4"))  # noqa: S314 (our own renderer's)
    for element in root.iter():
        _cleaned(element, prefix)
    _prune(root)
    size = {"viewBox": root.get("viewBox", ""), "width": root.get("width", "")}
    root.attrib = {**size, "role": "img", "aria-label": told}
    return ET.tostring(root, encoding="unicode")


def _cleaned(element: ET.Element, prefix: str) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    kept = element.attrib
    label = kept.pop("aria-label", None)
    if label and element.tag != "g":
        title = ET.SubElement(element, "title")
        title.text = label
    for name in _DROPPED:
        kept.pop(name, None)
    if role := _CLASSES & set(kept.pop("class", "").split()):
        kept["class"] = role.pop()
    for name, value in kept.items():
        if name in ("fill", "stroke") and value in _NAMES:
            kept[name] = f"var(--{_NAMES[value]})"
        elif name == "id":
            kept[name] = prefix + value
        elif name in ("d", "transform"):
            kept[name] = re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", value)
        kept[name] = kept[name].replace("url(#", f"url(#{prefix}")
    if kept.get("opacity") == "1":
        del kept["opacity"]


def _prune(element: ET.Element) -> None:
    """Without what is not drawn: paths of no length, groups of nothing."""
    for child in list(element):
        _prune(child)
        invisible = child.tag == "path" and (child.get("display") == "none" or not (child.get("d") or ""))
        blank = child.tag == "path" and child.get("fill") is None and child.get("stroke") is None and not len(child)
        if invisible or (blank and not _inherits(element)) or (child.tag == "g" and not len(child)):
            element.remove(child)


def _inherits(group: ET.Element) -> bool:
    return group.get("fill") not in (None, "none") or group.get("stroke") is not None or group.tag == "clipPath"
