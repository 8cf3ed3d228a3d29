"""The order of a run's plan, and of the moves in it."""

from replayer.schema import Conditions


def kind_of(conditions: Conditions) -> str:
    """Return the kind of the order: trace, reference, run or live."""
    return "trace" if conditions.order is None else conditions.order.kind


def is_inclusive(conditions: Conditions) -> bool:
    """Return whether several tiers may hold an object at a time."""
    rules = conditions.rules or {}
    return rules.get("copies") == "inclusive"


def has_chunks(conditions: Conditions) -> bool:
    """Return whether objects are stored in chunks, or answers without their last tokens.

    Then an object's bytes are not those of its tokens, and a hit may compute some of them again.
    """
    rules = conditions.rules or {}
    return bool(rules.get("chunk_tokens") or rules.get("unsaved_tokens"))


def describe_rules(conditions: Conditions) -> str:
    """Describe the arrangement of a run; its rules in full are in run.json."""
    name = conditions.arrangement or "waterfall"
    if conditions.rules is None:
        return f"{name}, promoting" if conditions.promote else name
    copies = "inclusive" if is_inclusive(conditions) else "exclusive"
    return f"{name} ({copies}, rules in run.json)"


def describe_order(conditions: Conditions) -> str:
    """Describe the order in words, for tables and reports."""
    kind = kind_of(conditions)
    name = None if conditions.order is None else conditions.order.name
    descriptions = {
        "trace": "planned in trace order",
        "reference": f"planned by reference {name}",
        "run": f"planned in the order of {name}",
        "live": "placed live",
    }
    return descriptions.get(kind, kind)
