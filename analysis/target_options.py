"""The flags that say what a run is held against."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from analysis.log import Targets
from tracegen.command_line import GIB_S, MILLISECONDS, TERABYTES, Unit
from tracegen.schema import ENUMS, InputError

_DEFAULT = Targets()


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --qos-ms, --qos-ms-per-gib, --device-gib-s and --tbw, as its argument `targets`."""

    @click.option("--qos-ms", metavar="CLASS=MS,…", help=f"Time to first byte by class; {_shown(_DEFAULT.qos_ms)}.")
    @click.option("--qos-ms-per-gib", metavar="MS", help="How much more per GiB moved before the first token; 0.")
    @click.option("--device-gib-s", metavar="READ,WRITE", help="What the nvme device can do: GiB/s, or 7GB/s,4GB/s.")
    @click.option("--tbw", metavar="TB", help="What the drive may be written in its life: 10^12 bytes, or 1.2PB.")
    @functools.wraps(command)
    def held(
        *args: Any,
        qos_ms: str | None,
        qos_ms_per_gib: str | None,
        device_gib_s: str | None,
        tbw: str | None,
        **others: Any,
    ) -> Any:
        targets = Targets()
        if qos_ms is not None:
            targets = replace(targets, qos_ms=targets.qos_ms | _by_class(qos_ms))
        if qos_ms_per_gib is not None:
            targets = replace(
                targets, qos_ms_per_gib=_number("--qos-ms-per-gib", qos_ms_per_gib, MILLISECONDS, zero=True)
            )
        if device_gib_s is not None:
            read, comma, write = device_gib_s.partition(",")
            if not comma:
                raise InputError(f"--device-gib-s {device_gib_s} must be two rates, of reads and writes: 6.5,4.")
            able = (_number("--device-gib-s", read, GIB_S), _number("--device-gib-s", write, GIB_S))
            targets = replace(targets, device_gib_s=able)
        if tbw is not None:
            targets = replace(targets, tbw=_number("--tbw", tbw, TERABYTES))
        return command(*args, targets=targets, **others)

    return held


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
