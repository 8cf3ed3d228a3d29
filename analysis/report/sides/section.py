"""The comparison of systems as a section of the page."""

from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup

from analysis.comparison.compare import Comparison
from analysis.comparison.rows import list_remarks, tabulate_comparison, tabulate_trials
from analysis.report.sides.forest import fit_axis
from tracegen.errors import format_count

_HERE: Final = Path(__file__).parent


def render_sides(comparison: Comparison) -> Markup:
    """Return the section: forest plot, remarks, and the trials folded; empty without them."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    groups = tabulate_comparison(comparison)
    remarks = [*list_remarks(comparison), *comparison.warnings]
    if not groups and not remarks:  # the first screen says why a single pair is not compared
        return Markup("")
    text = environment.get_template("sides.html.jinja").render(
        sides=comparison,
        groups=groups,
        axis=fit_axis(row.ratio for group in groups for row in group.rows),
        trials=tabulate_trials(comparison),
        remarks=remarks,
        count=format_count,
    )
    return Markup(text)  # noqa: S704 (escaped by the template)


def read_style() -> str:
    """Return the style sheet of the section."""
    return (_HERE / "sides.css").read_text()
