"""A tier made slower, for tests and what-if runs: behind a limit of bandwidth and latency."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import Any, Self

from replayer.bindings.compiled import call
from replayer.tiers.base import Buffer, OpenObject, Tier

_set_throttle = call("tier_throttle")
_stop_waiting = call("tier_stop_waiting")
_wait_turn: Callable[..., Any] = call("tier_wait_turn")
_READ = 0
_WRITE = 1


@dataclass(frozen=True)
class Throttle:
    """The speed limits of a tier.

    Attributes:
        mib_s: MiB per second of all reads together, and of all writes together.
        latency_us: microseconds added to the transfer of each request; requests wait in parallel.
        write_mib_s: MiB per second of all writes together, if it differs from that of reads.
    """

    mib_s: float
    latency_us: float = 0
    write_mib_s: float | None = None

    def as_dict(self) -> dict[str, float]:
        """Return the limits that are set, as run.json keeps them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """Format the limits for messages."""
        writes = ""
        if self.write_mib_s is not None:
            writes = f" of reads, {self.write_mib_s:g} MiB/s of writes"
        return f"{self.mib_s:g} MiB/s{writes} and {self.latency_us:g} us"


class ThrottledTier:
    """A tier behind a throttle: each transfer takes at least as long as the limits say.

    The limits are in the compiled core's tier, which waits by itself if its moves are compiled.
    For other tiers this class waits after each transfer.

    Args:
        tier: the tier to slow down; closing the throttled tier closes it.
        throttle: the limits.
    """

    def __init__(self, tier: Tier, throttle: Throttle) -> None:
        self._tier = tier
        self.keeps_bytes = tier.keeps_bytes
        self.is_compiled = tier.is_compiled
        write_mib_s = throttle.write_mib_s or throttle.mib_s
        _set_throttle(tier.engine_handle, throttle.mib_s, write_mib_s, throttle.latency_us)

    @property
    def engine_handle(self) -> int:
        return self._tier.engine_handle

    def create(self, key: int, size: int) -> OpenObject:
        return self._wrap(self._tier.create(key, size))

    def open(self, key: int, size: int) -> OpenObject:
        return self._wrap(self._tier.open(key, size))

    def _wrap(self, opened: OpenObject) -> OpenObject:
        return opened if self.is_compiled else _ThrottledObject(opened, self.engine_handle)

    def discard(self, key: int) -> None:
        self._tier.discard(key)

    def stop_waiting(self) -> None:
        _stop_waiting(self.engine_handle)

    def close(self) -> None:
        self._tier.close()


class _ThrottledObject:
    """An object whose transfers take as long as its tier's throttle says."""

    def __init__(self, opened: OpenObject, handle: int) -> None:
        self._opened = opened
        self._handle = handle
        self._waited_ns = 0

    @property
    def device_ns(self) -> int:
        return self._opened.device_ns + self._waited_ns

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        self._opened.read(offset, length, buffer)
        self._wait(_READ, length, began)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        self._opened.write(offset, length, buffer)
        self._wait(_WRITE, length, began)

    def _wait(self, direction: int, length: int, began: int) -> None:
        transferred = perf_counter_ns()
        _wait_turn(self._handle, direction, length, began)
        self._waited_ns += perf_counter_ns() - transferred

    def finish(self) -> None:
        self._opened.finish()

    def __enter__(self) -> Self:
        self._opened.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.__exit__(*exception)
