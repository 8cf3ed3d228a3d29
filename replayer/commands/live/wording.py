"""Figures of a task in words, as the view and the lines show them."""

from typing import Final

from replayer.experiments.agenda import Place
from replayer.live.figures import Figures
from tracegen.errors import format_count

_DECIMALS: Final = ((100, 0), (10, 1), (0, 2))
_GIB: Final = 2**30


def format_clock(seconds: float) -> str:
    """Return a time as m:ss, or as h:mm:ss from an hour on."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def format_ms(milliseconds: float | None) -> str:
    """Return a time in ms with three digits; a dash if there is none."""
    if milliseconds is None:
        return "-"
    decimals = next(digits for least, digits in _DECIMALS if milliseconds >= least)
    return f"{milliseconds:,.{decimals}f} ms"


def format_share(share: float | None) -> str:
    """Return a share in percent; a dash if there is none."""
    return "-" if share is None else f"{share:.1%}"


def describe_extent_done(figures: Figures) -> str:
    """Describe how much is done, of how much, and the time left."""
    if not figures.total:
        return ""
    if figures.unit == "s":
        done = f"{format_clock(figures.done)} of {format_clock(figures.total)}"
    elif figures.unit == "B":
        done = f"{figures.done / _GIB:.2f} of {figures.total / _GIB:.2f} GiB"
    else:
        done = f"{figures.done:,.0f} of {format_count(round(figures.total), figures.unit)}"
    return f"{done}{_describe_left(figures)}"


def _describe_left(figures: Figures) -> str:
    """Describe the time left; it is an estimate, unless a time limit ends the task."""
    if figures.left_s is None:
        return ""
    about = "" if figures.unit == "s" else "about "
    return f", {about}{format_clock(figures.left_s)} left"


def describe_stage(figures: Figures) -> str:
    """Describe what is done now."""
    stage = figures.stage
    if figures.ops_left is not None:
        stage += f", at most {format_count(figures.ops_left, 'op')} left"
    return stage + (f" (rank 0 of {figures.ranks})" if figures.ranks > 1 else "")


def describe_flight(figures: Figures) -> str:
    """Describe the moves that are made and those that wait."""
    return f"{format_count(figures.in_flight, 'move')}, {figures.queued:,} queued"


def describe_replay(place: Place) -> str:
    """Describe which replay of its series this is."""
    return f"{place.position}: {place.name}"


def describe_rest(place: Place) -> str:
    """Describe the time that the whole series takes yet; empty if it is unknown."""
    return "" if place.left_s is None else f"about {format_clock(place.left_s)} left in all"


def describe_line(figures: Figures, place: Place | None) -> str:
    """Return all figures as one line."""
    parts = [f"{describe_stage(figures)}: {describe_extent_done(figures)}".removesuffix(": ")]
    parts += [
        f"{tier} {rate.read_gib_s:.2f} GiB/s read, {rate.write_gib_s:.2f} written"
        for tier, rate in figures.tiers.items()
    ]
    if figures.tiers:
        parts += [
            f"P95 so far: nvme read {format_ms(figures.nvme_read_p95_ms)},"
            f" TTFT (storage part) {format_ms(figures.first_byte_p95_ms)}",
            f"hit rate {format_share(figures.hit_rate)}",
            f"in flight: {describe_flight(figures)}",
        ]
    if figures.failures:
        parts.append(f"{format_count(figures.failures, 'move')} FAILED")
    if place is not None and (rest := describe_rest(place)):
        parts.append(rest)
    name = f"{place.name}: " if place is not None and place.position else ""
    return name + "; ".join(parts)
