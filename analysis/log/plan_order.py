"""The order in which a run's plan was made."""

from replayer.schema import Conditions


def kind_of(conditions: Conditions) -> str:
    """Return the kind of the order: trace, reference, run or live; runs of version 1, which name none, have trace."""
    return "trace" if conditions.order is None else conditions.order.kind


def describe_order(conditions: Conditions) -> str:
    """Describe the order in words, for tables and reports."""
    kind = kind_of(conditions)
    name = None if conditions.order is None else conditions.order.name
    words = {
        "trace": "planned in trace order",
        "reference": f"planned by reference {name}",
        "run": f"planned in the order of {name}",
        "live": "placed live",
    }
    return words.get(kind, kind)
