"""The comparison of systems as sentences and as Markdown."""

from collections.abc import Callable

from analysis.comparison.ratios import find_same_ratios
from analysis.metrics.headlines import heading
from analysis.report.sides.sides import Side, Sides
from analysis.report.sides.tables import tabulate_sides


def list_remarks(sides: Sides) -> list[str]:
    """Return what a reader must know of the comparison: what differs, what is left out, doubts."""
    varied = [f"They differ in {'; '.join(side.varied)}." for side in sides.compared if side.varied]
    refused = [side.describe(sides.baseline) for side in sides.sides if side.why]
    unmatched = dict.fromkeys(why for side in sides.compared for why in side.unmatched)
    same = dict.fromkeys(text for side in sides.compared if (text := _list_same(side)))
    return [*varied, *same, *refused, *(f"Left out: {why}." for why in unmatched), *sides.warnings]


def _list_same(side: Side) -> str:
    """Say which rates have one ratio because the work is equal; empty if there are none."""
    works = [one.summaries.values() for one in side.configurations]
    runs = [[summary for own in systems for summary in own] for systems in works]
    found = find_same_ratios(runs, side.ratios)
    groups = [" and ".join(map(heading, (first, *others))) for first, others in found.items()]
    return f"One ratio, not several, as the work is equal: {'; '.join(groups)}." if groups else ""


def write_sides(sides: Sides, escape: Callable[[str], str]) -> list[str]:
    """Return ratios and remarks as lines of Markdown; the sentence is the answer of the report.

    Args:
        sides: the systems.
        escape: escapes the characters that Markdown interprets.
    """
    lines: list[str] = []
    if groups := tabulate_sides(sides):
        name = sides.compared[0].name if len(sides.compared) == 1 else "system"
        head = ["", sides.baseline, name, "ratio", "95% interval", ""]
        lines += [f"| {' | '.join(map(escape, head))} |", "|---|---:|---:|---:|---:|---|"]
    for group in groups:
        for row in group.rows:
            label = ": ".join(filter(None, (group.title, row.head)))
            cells = [label, row.old, row.new, row.times, row.interval, row.words]
            lines.append(f"| {' | '.join(map(escape, cells))} |")
    return [*lines, "", *(f"- {escape(remark)}" for remark in list_remarks(sides)), ""]
