"""Sides made of crafted runs."""

from pathlib import Path

from analysis.report.sides.sides import Sides, build_sides

from analysis.comparison.trials import load_trials


def sides_of(systems: dict[str, list[Path]], *, is_given: bool = False) -> Sides:
    """Compare systems with the first of them."""
    trials = {system: load_trials(runs)[0] if runs else [] for system, runs in systems.items()}
    return build_sides(trials, next(iter(systems)), is_given=is_given)
