"""Conditions of trials: which of them differ, which may differ, and how they are shown."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from analysis.comparison.trials import Trial
from replayer.schema import Conditions, to_plain
from tracegen.errors import InputError

Systems = Mapping[str, Sequence[Trial]]
"""Trials by the name of their system."""
ConditionTexts = dict[str, str]
"""The conditions of a run by name, as JSON; each tier's size separately: usable_bytes.cpu."""


def conditions_of(trial: Trial) -> ConditionTexts:
    """Return a run's conditions as JSON by name; each tier's size separately: usable_bytes.cpu."""
    return write_conditions(trial.run.conditions)


def write_conditions(conditions: Conditions) -> ConditionTexts:
    """Write conditions as JSON by name; each tier's size separately: usable_bytes.cpu."""
    named = to_plain(conditions)
    sizes = named.pop("usable_bytes")
    named |= {f"usable_bytes.{tier}": size for tier, size in sizes.items()}
    return {name: json.dumps(value, sort_keys=True) for name, value in named.items()}


def check_varied(vary: Iterable[str], systems: Systems) -> None:
    """Check that each varied name is a condition of the runs.

    Raises:
        InputError: one is not; the nearest known name is suggested.
    """
    trials = [trial for runs in systems.values() for trial in runs]
    known = {name for trial in trials for name in conditions_of(trial)} | {"usable_bytes"}
    for name in vary:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"name one of {', '.join(sorted(known))}"
            raise InputError("not a condition of these runs", remedy, subject=name, setting="vary")


LEADERS: Final = {
    "drain_s": "duration_s",
    "rules": "arrangement",
    "direct": "usable_bytes.nvme",
    "io_engine": "usable_bytes.nvme",
    "gpu_device": "usable_bytes.gpu",
    "gpu_read": "usable_bytes.gpu",
}
"""Conditions that follow from another condition unless they are set; both may vary together.

Conditions of a tier are null in runs without that tier; in all others they must be equal
(`_check_tiers`).
"""


def is_varied(name: str, vary: Iterable[str]) -> bool:
    """Return whether a condition may differ; `usable_bytes` means the sizes of all tiers."""
    names = (name, LEADERS[name]) if name in LEADERS else (name,)
    return any(each == varied or each.startswith(f"{varied}.") for varied in vary for each in names)


def find_differing(*runs: ConditionTexts) -> list[str]:
    """Return the names of the conditions that are not the same in all runs."""
    names = dict.fromkeys(name for conditions in runs for name in conditions)
    return [name for name in names if len({conditions.get(name) for conditions in runs}) > 1]


def drop_followers(names: list[str]) -> list[str]:
    """Return names of conditions without those that follow from another one among them."""
    return [name for name in names if LEADERS.get(name) not in names]


def format_condition(name: str, text: str | None, headroom: str | None = None) -> str:
    """Format a condition's value; a tier's size as requested, if the headroom is known.

    Args:
        name: of the condition.
        text: its value as JSON; None if the run did not record it.
        headroom: the share of a memory tier that is usable, as JSON.
    """
    if text is None:
        return "not recorded"
    if name.startswith("usable_bytes."):
        if text == "null":
            return "unlimited"
        share = 1.0 if name == "usable_bytes.nvme" else float(json.loads(headroom or "null") or 1)
        return f"{int(text) / 2**30 / share:.3g} GiB"
    if name == "order" and text != "null":
        order = json.loads(text)
        words = (order.get(field) for field in ("kind", "name"))
        return " ".join(str(word) for word in words if word is not None)
    return _format_throttle(text) if name == "throttle" else text.strip('"')


def _format_throttle(text: str) -> str:
    """Format the limits of tiers, given as JSON."""
    tiers: dict[str, dict[str, float]] = json.loads(text) or {}
    limits = []
    for tier, limit in tiers.items():
        words = [f"{value:.4g} {_LIMITS.get(key, key)}" for key, value in limit.items() if value]
        limits.append(f"{tier} {', '.join(words)}")
    return "; ".join(limits) or "none"


_LIMITS: Final = {"mib_s": "MiB/s", "latency_us": "µs"}
