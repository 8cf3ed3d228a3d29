"""The fields of run.json and their kinds: what a reader may rely on, checked before anything is computed."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tracegen.errors import InputError

STATUSES: Final = ("running", "complete", "incomplete", "failed")
TIERS: Final = ("gpu", "cpu", "nvme")
_INT64: Final = 1 << 63
_RANKS: Final = 1 << 20
_SHOWN: Final = 40  # characters of a wrong value
_MOST: Final = {"number": 1e12, "seconds": 1e9, "token_ms": 1e6}
"""The largest values that a reader can compute with: in nanoseconds they stay below 2^63."""

Kind = tuple[str, Callable[[Any], bool]]
Fields = dict[str, str]


def _is_int(value: Any, low: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < _INT64


def _is_number(value: Any, most: float = _MOST["number"]) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most  # NaN is not


def _up_to(name: str) -> Kind:
    most = _MOST[name]
    return f"a number from 0 to {most:,.0f}", lambda value: _is_number(value, most)


def _are_sources(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name, ""), str | None) for name in ("name", "licence"))
        for one in value
    )


def _is_part(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_int, value)) and value[0] < value[1]


def _is_throttle(value: Any) -> bool:
    return isinstance(value, dict) and all(
        tier in TIERS and isinstance(limits, dict) and all(map(_is_number, limits.values()))
        for tier, limits in value.items()
    )


def _one_of(*words: str) -> Kind:
    return f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words


_KINDS: Final[dict[str, Kind]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "texts": ("a list of texts", lambda v: isinstance(v, list) and all(isinstance(one, str) for one in v)),
    "count": ("a whole number of 0 or more", _is_int),
    "positive": ("a whole number of 1 or more", lambda value: _is_int(value, 1)),
    "ranks": (f"a whole number from 1 to {_RANKS - 1:,}", lambda value: _is_int(value, 1) and value < _RANKS),
    "integer": ("a whole number", lambda value: _is_int(value, 1 - _INT64)),
    **{name: _up_to(name) for name in _MOST},
    "sources": ("a list of objects with name and licence", _are_sources),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "counts": (
        "an object of whole numbers",
        lambda value: isinstance(value, dict) and all(_is_int(one, 1 - _INT64) for one in value.values()),
    ),
    "clocks": ("a list of objects", lambda v: isinstance(v, list) and all(isinstance(one, dict) for one in v)),
    "part": ("a part and how many there are", _is_part),
    "throttle": ("limits by tier", _is_throttle),
    "status": _one_of(*STATUSES),
    "pace": _one_of("asap", "closed", "open"),
    "verify": _one_of("off", "stamps", "full"),
    "layout": _one_of("files", "slab", "null"),
    "lookup": _one_of("independent", "contiguous"),
    "decode": _one_of("reread", "once", "none"),
    "order": _one_of("trace", "reference", "live", "run"),
    "io_engine": _one_of("psync", "uring"),
    "placement": _one_of("planned", "live"),
    "arrangement": _one_of("waterfall", "spillover"),
}

_MOVED: Final = (
    "ops hits.{tier} misses stores.{tier} demotions.gpu>cpu demotions.gpu>nvme demotions.cpu>nvme promotions drops"
    " bypasses recomputed_tokens read_bytes.{tier} write_bytes.{tier}"
)
_WRITTEN: Final[Fields] = {  # per kind, the fields that every writer gives, never null
    "status": "status",
    "texts": "warnings",
    "text": "trace.fingerprint conditions.model",
    "positive": "conditions.bytes_per_token conditions.workers",
    "pace": "conditions.pace",
    "verify": "conditions.verify",
}
_NULLABLE: Final = {  # the same, where null is an answer
    "text": "reason",
    "count": "conditions.usable_bytes.{tier}",
    "flag": "conditions.direct",
}
_LATER: Final = {  # absent, or null, where the writer was older or the run died before it knew
    "text": (
        "started payload_nonce trace.path plan.plan_fingerprint executed_fingerprint conditions.headroom"
        " conditions.fsync conditions.order.name"
        " conditions.gpu_device conditions.gpu_read machine.host machine.cpu machine.kernel machine.python"
        " machine.storage.filesystem machine.storage.mount_point machine.storage.mount_options machine.storage.device"
        " machine.code_sha256 machine.core_sha256 machine.storage.device_model machine.gpu.device"
    ),
    "texts": "plan.plan_checkpoints",
    "counts": "trace.counts",
    "object": "trace.recipe machine.packages conditions.order conditions.order.profile",
    "count": (
        "rank executed_ops conditions.windowed_bytes_per_token conditions.attention_window"
        " trace.ops plan.reads executed.reads plan.peak_bytes.{tier} warmup.ops warmup.end_ns"
        " clock.round_trip_ns conditions.users conditions.request_depth conditions.io_bytes conditions.io_depth"
        " conditions.max_concurrent_allocs conditions.warmup.ops conditions.window_ops conditions.window_bytes"
        " machine.memory_bytes"
    ),
    "positive": "conditions.cycles conditions.ops machine.cores machine.host_cores",
    "ranks": "conditions.ranks",
    "integer": "clock.offset_ns clock.zero_ns",
    "number": "conditions.speedup conditions.prefill_tok_s conditions.precondition_gib precondition.gib",
    "seconds": (
        "window.duration_s window.cut_s window.issued_s window.drain_s window.drain_limit_s window.stopped_s"
        " conditions.drain_s conditions.duration_s conditions.warmup.s precondition.s"
    ),
    "token_ms": "conditions.token_ms",
    "sources": "trace.sources",
    "flag": "conditions.promote conditions.gds machine.gpu.emulated",
    "part": "conditions.part",
    "throttle": "conditions.throttle",
    "layout": "conditions.layout",
    "lookup": "conditions.lookup",
    "decode": "conditions.decode",
    "order": "conditions.order.kind",
    "io_engine": "conditions.io_engine",
    "placement": "conditions.placement",
    "arrangement": "conditions.arrangement",
}
_ABOVE_WRITTEN: Final[Fields] = {"ranks": "ranks", "status": "status"}
_ABOVE_LATER: Final = {"text": "reason", "count": "executed_ops", "clocks": "clocks"}


def check(info: dict[str, Any], name: str) -> None:
    """Refuse a run.json, of one process or above those of ranks, whose fields are of other kinds than written.

    Args:
        info: its content.
        name: of the file, to say so.

    Raises:
        InputError: a field is missing or of another kind; it is named.
    """
    if "ranks" in info:
        _check(info, name, _ABOVE_WRITTEN, {}, _ABOVE_LATER)
        return
    _check(info, name, _WRITTEN, _NULLABLE, _LATER)
    live = info["conditions"].get("placement") == "live"  # whose plan is known when it has ended
    whole = {"plan": "plan" in info and info["plan"] is None and live, "executed": info.get("executed") is None}
    for counts, missing in whole.items():  # written whole or not at all
        if not missing:
            _check(info, name, {"count": " ".join(f"{counts}.{field}" for field in _MOVED.split())}, {}, {})


def _check(info: dict[str, Any], name: str, written: Fields, nullable: Fields, later: Fields) -> None:
    for fields, absent, null in ((written, False, False), (nullable, False, True), (later, True, True)):
        for kind, paths in fields.items():
            for path in _expanded(paths):
                _check_field(info, name, path, _KINDS[kind], absent=absent, null=null)


def _expanded(paths: str) -> Iterator[str]:
    for path in paths.split():
        yield from (path.replace("{tier}", tier) for tier in TIERS) if "{tier}" in path else (path,)


def _check_field(info: dict[str, Any], name: str, path: str, kind: Kind, *, absent: bool, null: bool) -> None:
    value: Any = info
    *above, last = path.split(".")
    for place, step in enumerate(above):
        value = value.get(step)
        if value is None and absent:
            return
        if not isinstance(value, dict):
            _refuse(name, ".".join(above[: place + 1]), value, "an object")
    if last not in value:
        if not absent:
            raise InputError(f"{name} is damaged or incomplete ({path} is missing); copy the run anew.")
    elif not (value[last] is None and null) and not kind[1](value[last]):
        _refuse(name, path, value[last], kind[0])


def _refuse(name: str, path: str, value: Any, kind: str) -> None:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
    raise InputError(f"{name} is damaged or incomplete ({path} is {shown}, not {kind}); copy the run anew.")
