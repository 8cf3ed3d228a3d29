"""The flags that say what a run is held against."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from analysis.log.log import Targets
from replayer.schema import TIERS
from tracegen.console.command_line import GIB_S, MILLISECONDS, TERABYTES, Unit
from tracegen.errors import InputError
from tracegen.schema import ENUMS

_DEFAULT = Targets()


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that say what runs are held against, as its argument `targets`."""

    @click.option("--qos-ms", metavar="CLASS=MS,…", help=f"Time to first byte by class; {_shown(_DEFAULT.qos_ms)}.")
    @click.option("--qos-ms-per-gib", metavar="MS", help="How much more per GiB moved before the first token; 0.")
    @click.option(
        "--tier-gib-s",
        multiple=True,
        metavar="TIER=READ,WRITE",
        help="What a tier can do, by a benchmark or data sheet: GiB/s, or 7GB/s,4GB/s; once per tier.",
    )
    @click.option("--device-gib-s", metavar="READ,WRITE", help="The same of nvme, by fio or data sheet.")
    @click.option("--tbw", metavar="TB", help="What the drive may be written in its life: 10^12 bytes, or 1.2PB.")
    @click.option("--drive-tb", metavar="TB", help="The drive's capacity, in 10^12 bytes, for its writes per day.")
    @functools.wraps(command)
    def held(
        *args: Any,
        qos_ms: str | None,
        qos_ms_per_gib: str | None,
        tier_gib_s: tuple[str, ...],
        device_gib_s: str | None,
        tbw: str | None,
        drive_tb: str | None,
        **others: Any,
    ) -> Any:
        targets = Targets()
        if qos_ms is not None:
            targets = replace(targets, qos_ms=targets.qos_ms | _by_class(qos_ms))
        if qos_ms_per_gib is not None:
            targets = replace(
                targets, qos_ms_per_gib=_number("--qos-ms-per-gib", qos_ms_per_gib, MILLISECONDS, zero=True)
            )
        targets = replace(targets, tier_gib_s=_by_tier(tier_gib_s, device_gib_s))
        if tbw is not None:
            targets = replace(targets, tbw=_number("--tbw", tbw, TERABYTES))
        if drive_tb is not None:
            targets = replace(targets, drive_tb=_number("--drive-tb", drive_tb, TERABYTES))
        return command(*args, targets=targets, **others)

    return held


def _by_tier(texts: tuple[str, ...], device: str | None) -> dict[str, tuple[float, float]]:
    """What tiers can read and write."""
    found = {} if device is None else {"nvme": _sides("--device-gib-s", device)}
    for text in texts:
        tier, _, sides = text.partition("=")
        if tier not in TIERS:
            raise InputError(f"--tier-gib-s {text}: {tier!r} is none of {', '.join(TIERS)}.")
        if tier in found:
            raise InputError(f"--tier-gib-s {text}: what {tier} can do is given twice; give it once.")
        found[tier] = _sides("--tier-gib-s", sides)
    return found


def _sides(flag: str, text: str) -> tuple[float, float]:
    read, comma, write = text.partition(",")
    if not comma:
        raise InputError(f"{flag} {text} must be two numbers, of reads and writes: 6.5,4.")
    return _number(flag, read, GIB_S), _number(flag, write, GIB_S)


def _by_class(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ENUMS["qos"]:
            raise InputError(f"--qos-ms {text}: {name!r} is none of {', '.join(ENUMS['qos'])}.")
        found[name] = _number("--qos-ms", value, MILLISECONDS)
    return found


def _number(flag: str, text: str, unit: Unit, *, zero: bool = False) -> float:
    try:
        value = float(unit.parse(text))
    except ValueError as problem:
        raise InputError(f"{flag}: {problem}") from None
    if value < 0 or (value == 0 and not zero):
        raise InputError(f"{flag} {text} must be {'0 or more' if zero else 'more than 0'}.")
    return value


def _shown(qos_ms: dict[str, float]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in qos_ms.items())
