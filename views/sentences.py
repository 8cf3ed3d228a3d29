"""Sentences of answers, each one template: nothing else puts a finding into words of its own."""

from collections.abc import Iterable, Mapping, Sequence


def say_values(clauses: Iterable[tuple[str, str]], limit: str = "") -> str:
    """Say values, as "Reads take 3 ms; writes take 9 ms. The limit is the device.".

    Args:
        clauses: a phrase with a place for its value, and the value; left out without a value.
        limit: what held the values back; empty if it is not known.
    """
    said = "; ".join(phrase.format(value) for phrase, value in clauses if value)
    begun = f"{said[:1].upper()}{said[1:]}." if said else "Nothing was measured."
    return f"{begun} The limit is {limit}." if said and limit else begun


def say_ratios(claims: Mapping[str, Sequence[tuple[str, str]]], remarks: Iterable[str] = ()) -> str:
    """Say what ratios show: "A is better than B: reads and writes 2 × (95% interval 1 to 3); …".

    Args:
        claims: what was measured and its ratio, by what they show; equal ratios are said once.
        remarks: clauses that qualify the ratios.
    """
    clauses = []
    for claim, ratios in claims.items():
        named: dict[str, list[str]] = {}
        for what, ratio in ratios:
            named.setdefault(ratio, []).append(what)
        listed = (f"{', '.join(words[:-1])} and {words[-1]} {ratio}" for ratio, words in named.items())
        clauses.append(f"{claim}: {', '.join(text.removeprefix(' and ') for text in listed)}")
    return "; ".join([*clauses, *remarks]).replace("× (", "× (95% interval ", 1) + "."


def say_limit(what: str, goal: str, place: str, beyond: Iterable[str] = ()) -> str:
    """Say how far a goal is met: "The P95 is within 200 ms up to 4 users; 512 ms at 8 users."."""
    return "; ".join([f"The {what} is within {goal} {place}", *beyond]) + "."
