"""A tier made slower, for tests and what-if runs: another tier behind a limit of bandwidth and latency."""

import threading
from dataclasses import dataclass
from time import perf_counter_ns, sleep
from typing import Self

from replayer.tiers.contract import Buffer, Object, Tier

_NAP_NS = 100_000_000
_LATE_NS = 5_000_000  # of a sleep, at most: the rest is the machine's


@dataclass(frozen=True)
class Throttle:
    """A device's speed.

    Attributes:
        mib_s: MiB per second of all reads together, and of all writes together.
        latency_us: of each request beyond its transfer; requests wait for it side by side.
    """

    mib_s: float
    latency_us: float = 0


class _Channel:
    """One direction of a device: transfers one after the other, each as long as its bytes take."""

    def __init__(self, throttle: Throttle, stopped: threading.Event) -> None:
        self.stopped = stopped
        self._ns_per_byte, self._latency_ns = 1e9 / (throttle.mib_s * 2**20), throttle.latency_us * 1e3
        self._free_ns, self._lock, self._own = 0.0, threading.Lock(), threading.local()

    def pass_through(self, size: int, began_ns: int) -> None:
        """Return when the device would have moved so many bytes of a request that began then.

        A sleep ends late; by so much earlier the transfer of the thread's next request counts as begun, or small ones
        would never reach the device's bandwidth.
        """
        early_ns = began_ns - getattr(self._own, "late_ns", 0)
        with self._lock:
            self._free_ns = max(self._free_ns, early_ns) + size * self._ns_per_byte
            until = max(self._free_ns, began_ns) + self._latency_ns
        while (left := until - perf_counter_ns()) > 0 and not self.stopped.is_set():
            if left < _NAP_NS:
                sleep(left / 1e9)
            else:  # less exact, but it can be ended
                self.stopped.wait((left - _NAP_NS / 2) / 1e9)
        self._own.late_ns = min(-left, _LATE_NS)


class _ThrottledObject:
    def __init__(self, inner: Object, reads: _Channel, writes: _Channel) -> None:
        self._inner, self._reads, self._writes, self.device_ns = inner, reads, writes, 0

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        self._inner.read(offset, length, buffer)
        self._reads.pass_through(length, began)
        self.device_ns += perf_counter_ns() - began

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        self._inner.write(offset, length, buffer)
        self._writes.pass_through(length, began)
        self.device_ns += perf_counter_ns() - began

    def finish(self) -> None:
        before = self._inner.device_ns
        self._inner.finish()
        self.device_ns += self._inner.device_ns - before

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._inner.__exit__(*exception)


class ThrottledTier:
    """A tier whose objects move no faster than a throttle allows."""

    chunked = True

    def __init__(self, inner: Tier, throttle: Throttle) -> None:
        self.inner, self.keeps_bytes = inner, inner.keeps_bytes
        self._stopped = threading.Event()
        self._reads, self._writes = (_Channel(throttle, self._stopped) for _ in range(2))

    def create(self, key: int, size: int) -> Object:
        return _ThrottledObject(self.inner.create(key, size), self._reads, self._writes)

    def open(self, key: int, size: int) -> Object:
        return _ThrottledObject(self.inner.open(key, size), self._reads, self._writes)

    def discard(self, key: int) -> None:
        self.inner.discard(key)

    def hurry(self) -> None:
        """Nobody needs to wait any more: the run is being stopped."""
        self._stopped.set()

    def close(self) -> None:
        self.inner.close()
