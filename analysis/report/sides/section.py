"""The comparison of systems as a section of the page."""

from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup

from analysis.report.sides.forest import fit_axis
from analysis.report.sides.remarks import list_remarks
from analysis.report.sides.sides import Sides
from analysis.report.sides.tables import tabulate_side_trials, tabulate_sides
from tracegen.errors import format_count

_HERE: Final = Path(__file__).parent


def render_sides(sides: Sides) -> Markup:
    """Return the section: the verdict, a forest plot as a table, doubts, and the trials folded."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    groups = tabulate_sides(sides)
    text = environment.get_template("sides.html.jinja").render(
        sides=sides,
        groups=groups,
        axis=fit_axis(row.ratio for group in groups for row in group.rows),
        trials=tabulate_side_trials(sides),
        remarks=list_remarks(sides),
        count=format_count,
    )
    return Markup(text)  # noqa: S704 (escaped by the template)


def read_style() -> str:
    """Return the style sheet of the section."""
    return (_HERE / "sides.css").read_text()
