"""The report of a search in each format."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from analysis.searches.answer import make_search_screen
from analysis.searches.search import SearchReading, open_search, tabulate_steps
from analysis.sweeps.export import FileReport, list_markdown, tabulate_markdown
from tracegen.progress import Progress, ignore_progress

if TYPE_CHECKING:
    from analysis.sweeps.figures import PlainFigure


def render_search(
    search: SearchReading,
    title: str = "",
    progress: Progress = ignore_progress,
) -> bytes:
    """Return the page; `progress` shows how many of its charts are drawn."""
    from analysis.report.page import Table  # noqa: PLC0415 (other formats need no renderer)
    from analysis.sweeps.form import PlainPage, convert_table, render_plain_page  # noqa: PLC0415

    content = search.content
    settings = {
        "trace": content.trace.path,
        "trace fingerprint": content.trace.fingerprint,
        "metric": content.metric,
        "flags of each replay": " ".join(content.flags),
        "seconds of each replay": f"{content.duration_s:g}",
    }
    rows = [[name, value] for name, value in settings.items()]
    page = PlainPage(
        make_search_screen(search, title),
        list(draw_search_figures(search)),
        {
            "Every step": convert_table("Steps by users", tabulate_steps(search)),
            "Settings": Table("Settings of all replays", ["", "value"], rows),
        },
        source=search.path.name,
    )
    return render_plain_page(page, progress).encode()


def make_search_markdown(search: SearchReading, title: str = "") -> bytes:
    """Return the first screen and the steps."""
    steps = tabulate_steps(search)
    lines = [*list_markdown(make_search_screen(search, title))]
    lines += tabulate_markdown(steps.columns, steps.rows())
    return ("\n".join(lines) + "\n").encode()


def make_search_csv(search: SearchReading, _title: str = "") -> bytes:
    """Return the steps."""
    return tabulate_steps(search).write_csv().encode()


def make_search_json(search: SearchReading, title: str = "") -> bytes:
    """Return the first screen, and what the file holds."""
    screen = asdict(make_search_screen(search, title))
    return (json.dumps({**screen, "search": search.plain}, indent=1) + "\n").encode()


def draw_search_figures(search: SearchReading) -> Iterable["PlainFigure"]:
    """Return the charts of a search."""
    from analysis.searches.charts import list_search_figures  # noqa: PLC0415 (a renderer)

    return list_search_figures(search)


SEARCH: Final = FileReport(
    "a search",
    open_search,
    draw_search_figures,
    {
        "html": render_search,
        "md": make_search_markdown,
        "csv": make_search_csv,
        "json": make_search_json,
    },
)
