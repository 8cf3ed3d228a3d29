"""Flags of the targets that runs are judged by."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from analysis.log.targets import Targets
from tracegen.console.command_line import GIB_S, MILLISECONDS, TERABYTES, Quantity, Unit
from tracegen.console.commands import option_group
from tracegen.errors import InputError

_DEFAULT = Targets()


_QOS_MS: Final = ",".join(f"{name}={value:g}" for name, value in _DEFAULT.qos_ms.items())
_TARGET_FLAGS: Final = (
    click.option(
        "--qos-ms", metavar="CLASS=MS,…", help=f"Target of the time to first byte, by class. Default: {_QOS_MS}."
    ),
    click.option(
        "--tier-gib-s",
        multiple=True,
        metavar="TIER=READ,WRITE",
        help="Bandwidth of a tier, e.g. by fio or a data sheet, in GiB/s or as 7GB/s,4GB/s; once per tier.",
    ),
    click.option(
        "--tbw",
        type=Quantity(TERABYTES, low=1e-6),
        metavar="TB",
        help="Rated endurance of the drive: bytes it may be written, in 10^12 bytes or as 1.2PB.",
    ),
    click.option(
        "--drive-tb",
        type=Quantity(TERABYTES, low=1e-6),
        metavar="TB",
        help="Capacity of the drive in 10^12 bytes, for its drive writes per day.",
    ),
)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of targets; it receives them as its argument `targets`."""

    @functools.wraps(command)
    def with_targets(
        *args: Any,
        qos_ms: str | None,
        tier_gib_s: tuple[str, ...],
        tbw: float | None,
        drive_tb: float | None,
        **others: Any,
    ) -> Any:
        targets = Targets(
            qos_ms=_DEFAULT.qos_ms | ({} if qos_ms is None else _parse_classes(qos_ms)),
            tier_gib_s=_parse_tiers(tier_gib_s),
            tbw=tbw,
            drive_tb=drive_tb,
        )
        return command(*args, targets=targets, **others)

    example = "--qos-ms interactive=200 --tier-gib-s nvme=7,4"
    return option_group("Targets", example, *_TARGET_FLAGS)(with_targets)


def _parse_tiers(texts: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Parse the bandwidths of tiers, for reading and writing, in GiB/s."""
    from replayer.schema import TIERS

    bandwidths: dict[str, tuple[float, float]] = {}
    for text in texts:
        tier, directions = _split_named("tier_gib_s", text, "tier", TIERS)
        if tier in bandwidths:
            problem = f"the bandwidth of {tier} is given twice"
            raise InputError(problem, "give it once", subject=text, setting="tier_gib_s")
        bandwidths[tier] = _parse_bandwidths(directions)
    return bandwidths


def _parse_bandwidths(text: str) -> tuple[float, float]:
    read, comma, write = text.partition(",")
    if not comma:
        remedy = "give those of reading and writing, for example 6.5,4"
        raise InputError("not two numbers", remedy, subject=text, setting="tier_gib_s")
    return _parse("tier_gib_s", read, GIB_S), _parse("tier_gib_s", write, GIB_S)


def _parse_classes(text: str) -> dict[str, float]:
    """Parse the targets of QoS classes, in ms."""
    named = (_split_named("qos_ms", entry, "class", _DEFAULT.qos_ms) for entry in text.split(","))
    return {name: _parse("qos_ms", value, MILLISECONDS) for name, value in named}


def _split_named(setting: str, text: str, what: str, known: Iterable[str]) -> tuple[str, str]:
    """Split NAME=VALUE, whose name must be known."""
    name, _, value = text.partition("=")
    if name not in known:
        remedy = f"name one of {', '.join(known)}"
        raise InputError(f"there is no {what} {name!r}", remedy, subject=text, setting=setting)
    return name, value


def _parse(setting: str, text: str, unit: Unit) -> float:
    """Parse a positive number in a unit."""
    try:
        value = float(unit.parse(text))
    except ValueError as error:
        raise InputError(str(error), setting=setting) from None
    if value <= 0:
        raise InputError("must be more than 0", subject=text, setting=setting)
    return value
