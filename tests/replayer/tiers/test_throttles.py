"""Throttles of tiers."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.tiers.native import NativeTier, NullTier
from tests.replayer.tiers.contract import BUFFER, FAST, MIB, TierContract, file_tier, throttled
from tests.support import system_calls


class TestThrottledFileTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> NativeTier:
        return throttled(file_tier(tmp_path), FAST)


def move(tier: NativeTier, directions: list[str], requests: int, size: int) -> float:
    """Move `requests` requests per worker, one worker per direction; return the seconds it took."""
    ready, starts, problems = threading.Barrier(len(directions)), list[float](), list[BaseException]()

    def work(key: int, direction: str) -> None:
        try:
            with tier.create(key, size * requests) as moved:
                ready.wait(timeout=20)
                starts.append(time.perf_counter())
                for number in range(requests):
                    getattr(moved, direction)(number * size, size, BUFFER)
        except BaseException as error:  # noqa: BLE001 (raised below)
            problems.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(directions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.perf_counter()
    assert not problems
    return ended - min(starts)


def shortest(once: Callable[[], float], least: float, enough: float, tries: int = 30) -> float:
    """Return the shortest of several tries; each takes at least `least`, as noise only adds time."""
    best = float("inf")
    for _ in range(tries):
        best = min(best, took := once())
        assert took >= least * 0.995, f"{took} s: faster than the limit of {least} s"
        if best <= enough:
            break
    return best


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("direction", ["read", "write"])
def test_bandwidth_reaches_the_limit_and_no_more(workers: int, direction: str) -> None:
    """12 MiB at 240 MiB/s take 0.05 s, however many workers move them."""
    tier, requests = throttled(NullTier(), 240), 24 // workers
    best = shortest(lambda: move(tier, [direction] * workers, requests, MIB // 2), 0.05, 0.05 * 1.1, tries=200)
    assert best <= 0.05 * 1.1


def test_small_requests_of_one_worker_reach_the_limit() -> None:
    """100 requests of 64 KiB at 470 MiB/s: 13 ms. With waits of whole milliseconds it would be 100."""
    tier, least = throttled(NullTier(), 470), 100 / 16 / 470
    assert shortest(lambda: move(tier, ["read"], 100, 64 << 10), least, least * 1.2, tries=500) <= least * 1.2


def test_reads_and_writes_have_limits_of_their_own() -> None:
    """8 MiB each way at 160 MiB/s: 0.05 s in parallel, 0.1 s if they shared the limit."""
    tier = throttled(NullTier(), 160)
    best = shortest(lambda: move(tier, ["read", "write"], 16, MIB // 2), 0.05, 0.06, tries=200)
    assert best <= 0.06


def test_latency_adds_to_every_request() -> None:
    tier = throttled(NullTier(), 160, latency_us=20_000)
    least = 5 * (0.02 + 0.5 / 160)
    assert shortest(lambda: move(tier, ["read"], 5, MIB // 2), least, least * 1.3) < least * 2


def test_requests_wait_for_their_latencies_in_parallel() -> None:
    tier = throttled(NullTier(), 1e6, latency_us=100_000)
    assert shortest(lambda: move(tier, ["write"] * 8, 1, 512), 0.1, 0.15) < 0.4, "not 0.8 s"


def slow(descriptor: int, address: int, size: int, at: int) -> int:
    """Take 40 ms per request, as a slow device does."""
    time.sleep(0.04)
    return size


def test_a_throttle_adds_no_time_to_a_slower_device(tmp_path: Path) -> None:
    tier = throttled(file_tier(tmp_path), 0.5 / 0.03)  # 30 ms for half a MiB

    def once() -> float:
        took = move(tier, ["read"], 5, MIB // 2)
        tier.discard(0)
        return took

    with system_calls.replaced("pread", slow):
        assert shortest(once, 0.2, 0.22) < 0.3, "not 0.35 s"


def test_late_transfers_of_one_tier_do_not_speed_up_another(tmp_path: Path) -> None:
    """One worker reads both tiers; the first is slower than its limit, the second keeps to its own."""
    late, tier = throttled(file_tier(tmp_path), FAST), throttled(NullTier(), 50)
    took = 0
    with system_calls.replaced("pread", slow), late.create(1, 512) as one, tier.create(1, MIB) as other:
        for _ in range(8):
            one.read(0, 512, BUFFER)
            began = time.perf_counter_ns()
            other.read(0, MIB // 2, BUFFER)
            took += time.perf_counter_ns() - began
    assert took >= 8 * 10_000_000 * 0.995


def test_stop_waiting_ends_all_waits() -> None:
    tier = throttled(NullTier(), 0.01)
    threading.Timer(0.2, tier.stop_waiting).start()
    began = time.perf_counter()
    move(tier, ["read", "read", "write"], 2, MIB)
    assert time.perf_counter() - began < 10, "not 300 s"


def test_throttled_time_is_device_time(tmp_path: Path) -> None:
    tier = throttled(file_tier(tmp_path), 10)
    with tier.create(1, MIB) as target:
        target.write(0, MIB, BUFFER)
        target.finish()
        assert target.device_ns >= 100_000_000
    with tier.open(1, MIB) as source:
        source.read(0, MIB, BUFFER)
        assert source.device_ns >= 100_000_000
    tier.close()
    assert list(tmp_path.iterdir()) == []
