"""The first screen of a report of runs."""

from analysis.report.between_runs.load import find_load, is_one_curve
from analysis.report.between_runs.load_screen import make_load_title
from analysis.report.data import Gathered
from analysis.report.first_screen.answer import describe_answer
from analysis.report.first_screen.cards import make_cards, pick_valid
from analysis.report.first_screen.doubts import list_doubt_lines
from analysis.report.first_screen.form import FirstScreen
from analysis.report.first_screen.tested import list_tested
from analysis.report.text import format_state
from tracegen.errors import format_count


def make_first_screen(data: Gathered) -> FirstScreen:
    """Return the first screen: what was tested, the answer, the cards, the doubts."""
    is_valid = all(summary.is_valid for summary in data.summaries)
    # Valid runs are no verdict on which system is better, nor predictions outside their profile a measurement.
    is_plain = data.comparison is not None or any(summary.is_outside_profile for summary in data.summaries)
    return FirstScreen(
        f"kv-tier-bench report of {_count_runs(data)}",
        data.title or _make_load_title(data) or make_title(data),
        list_tested(data),
        format_state(data),
        describe_answer(data),
        "bad" if not is_valid else "plain" if is_plain else "good",
        make_cards(data),
        list_doubt_lines(data),
    )


def _make_load_title(data: Gathered) -> str | None:
    """Return the title of a load curve; None if two systems are compared under several loads."""
    has_configurations = data.comparison is not None and data.comparison.has_configurations
    return None if has_configurations else make_load_title(data)


def make_title(data: Gathered) -> str:
    """Make a title of what was compared, or of what was tested."""
    systems = data.systems
    if data.comparison and len(data.comparison.pairs) == 1:
        return f"{data.comparison.pairs[0].name} against {data.comparison.baseline}"
    if len(systems) == 2:
        return f"{systems[1]} against {systems[0]}"
    if len(systems) > 2:
        more = f" and {len(systems) - 3} more" if len(systems) > 3 else ""
        return ", ".join(systems[:3]) + more
    run = pick_valid(data.runs)[0]
    storage = run.summary.provenance.storage
    drive = storage.device_model if storage is not None else None
    name = systems[0] if len(data.runs) > 1 else run.name
    model = run.summary.provenance.conditions.model
    return f"{name}: KV cache on {drive}" if drive else f"{name}: KV cache of {model}"


def _count_runs(data: Gathered) -> str:
    runs, systems = len(data.runs), len(data.systems)
    if (found := find_load(data)) and is_one_curve(data):
        loads = format_count(len(found.curves[0].points), "load")
        return f"{format_count(runs, 'run')} at {loads}"
    if systems > 1:
        return f"{format_count(systems, 'system')}, {format_count(runs, 'run')}"
    return f"{runs} trials" if runs > 1 else "one run"
