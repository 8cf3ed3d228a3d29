"""In what order a run's plan was made."""

from typing import Any


def kind_of(conditions: dict[str, Any]) -> str:
    """Trace, reference, run or live; runs of version 1 say nothing: trace."""
    return str((conditions.get("order") or {}).get("kind") or "trace")


def described(conditions: dict[str, Any]) -> str:
    """In words, for tables and reports."""
    kind, name = kind_of(conditions), (conditions.get("order") or {}).get("name")
    words = {
        "trace": "planned in trace order",
        "reference": f"planned by reference {name}",
        "run": f"planned in the order of {name}",
        "live": "placed live",
    }
    return words.get(kind, kind)
