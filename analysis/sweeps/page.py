"""The report of a sweep as one HTML file, as the report of runs."""

from analysis.report.page import Table
from analysis.sweeps.answer import make_screen
from analysis.sweeps.figures import list_figures
from analysis.sweeps.form import PlainPage, convert_table, render_plain_page
from analysis.sweeps.sweep import SweepTable
from analysis.sweeps.tables import list_findings, tabulate_cells
from replayer.schema import SIMULATION_COLUMNS
from tracegen.progress import Progress, ignore_progress


def render_sweep(
    sweep: SweepTable,
    title: str = "",
    progress: Progress = ignore_progress,
) -> str:
    """Return the page.

    Args:
        sweep: the cells.
        title: its heading; if empty, one from trace and model.
        progress: shows how many of its charts are drawn.
    """
    cells = tabulate_cells(sweep)
    page = PlainPage(
        make_screen(sweep, title),
        list(list_figures(sweep)),
        {
            "Every plan": convert_table(f"{len(cells):,} plans", cells),
            "Settings": _tabulate_settings(sweep),
        },
        details=list_findings(sweep),
        details_title="Every curve in words",
        terms=[(column.name, column.text) for column in SIMULATION_COLUMNS],
        source="the plans alone",
    )
    return render_plain_page(page, progress)


def _tabulate_settings(sweep: SweepTable) -> Table:
    info = sweep.info
    values: dict[str, object] = {
        "trace": info.trace,
        "trace fingerprint": info.trace_fingerprint,
        "made by": info.release,
        "order": sweep.cells["order"][0],
        **{name.replace("_", " "): value for name, value in info.settings.items()},
    }
    return Table(
        "Settings of all plans",
        ["", "value"],
        [[name, str(value)] for name, value in values.items()],
    )
