"""The contract of every tier, and what its tests share; a new tier subclasses TierContract."""

import ctypes
import errno
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replayer.bindings.compiled import Extent, variable
from replayer.machine.reserve import Reserve
from replayer.tiers.base import ALIGNMENT, HostBuffer
from replayer.tiers.disk import FileTier, SlabTier
from replayer.tiers.gpu import GpuTier
from replayer.tiers.native import CpuTier, NativeTier
from replayer.tiers.payload import Payload
from replayer.tiers.request import BlockIO, TierRequest
from replayer.tiers.throttled import Throttle
from tests.support import system_calls
from tracegen.errors import InputError

CHUNK = 4 << 20
MIB = 1 << 20
PAYLOAD = Payload(0)
BUFFER = HostBuffer(CHUNK)
FAST = 1e6  # MiB/s
DEEP = BlockIO(size=64 << 10, depth=4, engine="uring")


def file_tier(place: Path, run: str = "test", io: BlockIO | None = None, **more: Any) -> FileTier:
    """A tier of files, without a reserve unless a test asks for one."""
    more = {"reserve": Reserve(bytes=0)} | more
    return FileTier(TierRequest(cache_dir=place, run=run, io=io or BlockIO(), **more))


def slab_tier(place: Path, size: int, run: str = "test", io: BlockIO | None = None, **more: Any) -> SlabTier:
    return SlabTier(TierRequest(disk_bytes=size, cache_dir=place, run=run, io=io or BlockIO(), **more))


def cpu_tier(size: int, objects: int = 0) -> CpuTier:
    return CpuTier(TierRequest(size, objects))


def gpu_tier(size: int, device: str = "cpu", objects: int = 0) -> GpuTier:
    return GpuTier(TierRequest(size, objects, gpu_device=device))


def host_buffer(tier: Any) -> Any:
    """The host buffer for moves to and from this tier: the gpu tier's own pinned one, or BUFFER."""
    if not isinstance(tier, GpuTier):
        return BUFFER
    buffer = vars(tier).setdefault("tests_buffer", None) or tier.make_host_buffer(CHUNK)
    tier.tests_buffer = buffer  # type: ignore[attr-defined]
    return buffer


def read(tier: NativeTier, source: Any, offset: int, length: int) -> Any:
    """Read into a buffer of zeros; by way of the device, if the tier's test asks for that."""
    buffer: Any = host_buffer(tier)
    on_device = vars(tier).get("tests_on_device")
    buffer.bytes[:] = 0
    if on_device is None:
        source.read(offset, length, buffer)
    else:
        on_device.tensor.zero_()
        source.read(offset, length, on_device)
        assert not buffer.bytes[:length].any(), "nothing came to the host"
        on_device.copy_to_host(buffer, length)
    return buffer


def put(tier: NativeTier, key: int, size: int) -> None:
    buffer = host_buffer(tier)
    with tier.create(key, size) as target:
        for offset in range(0, size, CHUNK):
            length = min(CHUNK, size - offset)
            PAYLOAD.fill(buffer.words, key, offset, -(-length // ALIGNMENT) * ALIGNMENT)
            target.write(offset, length, buffer)
        target.finish()
        assert target.device_ns >= 0


def find_damage(tier: NativeTier, key: int, size: int) -> str | None:
    """Read an object back; return how it differs from what `put` wrote, or None."""
    damage = None
    with tier.open(key, size) as source:
        for offset in range(0, size, CHUNK):
            length = min(CHUNK, size - offset)
            buffer = read(tier, source, offset, length)
            damage = damage or PAYLOAD.check(buffer.words, key, offset, length)
    return damage


def check_every_fragment_is_used(tier: NativeTier, room: int, steps: list[tuple[int, int]]) -> None:
    """Check that an empty tier of `room` bytes stores objects as long as their sizes add up to no more.

    Each step is (key, size): it discards the object if the tier has it, and else stores it if it fits.
    """
    held = dict[int, int]()
    for key, size in steps:
        if key in held:
            assert find_damage(tier, key, held.pop(key)) is None
            tier.discard(key)
        elif sum(held.values()) + size <= room:
            put(tier, key, size)
            held[key] = size
    assert all(find_damage(tier, key, size) is None for key, size in held.items())
    for key in held:
        tier.discard(key)
    put(tier, 99, room)
    assert find_damage(tier, 99, room) is None


def has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class TierContract:
    """The behaviour of tiers that execution relies on."""

    @pytest.fixture
    def tier(self, tmp_path: Path) -> NativeTier:
        raise NotImplementedError

    @pytest.mark.parametrize("size", [1, 511, 512, 4096, 70_272, CHUNK, CHUNK + 128, 2 * CHUNK + 5000])
    def test_reads_return_the_bytes_written(self, tier: NativeTier, size: int) -> None:
        put(tier, 1, size)
        put(tier, 2, size)
        if tier.keeps_bytes:
            assert find_damage(tier, 1, size) is None
            assert find_damage(tier, 2, size) is None

    def test_a_missing_object_cannot_be_opened(self, tier: NativeTier) -> None:
        with pytest.raises(OSError, match="7"):
            tier.open(7, 512)
        put(tier, 7, 512)
        tier.discard(7)
        with pytest.raises(OSError, match="7"):
            tier.open(7, 512)

    def test_discarding_a_missing_object_is_no_error(self, tier: NativeTier) -> None:
        tier.discard(3)

    def test_a_discarded_key_can_be_stored_again(self, tier: NativeTier) -> None:
        for size in (5000, 100, 9000):
            put(tier, 1, size)
            if tier.keeps_bytes:
                assert find_damage(tier, 1, size) is None
            tier.discard(1)

    def test_closing_twice_is_no_error(self, tier: NativeTier) -> None:
        put(tier, 1, 512)
        tier.close()
        tier.close()

    def test_chunks_can_be_read_in_any_order(self, tier: NativeTier) -> None:
        """A chunk must not depend on the chunk before."""
        size, chunk = MIB + 700, 256 << 10
        put(tier, 1, size)
        if not tier.keeps_bytes:
            return
        with tier.open(1, size) as source:
            for offset in reversed(range(0, size, chunk)):
                length = min(chunk, size - offset)
                buffer = read(tier, source, offset, length)
                assert PAYLOAD.check(buffer.words, 1, offset, length) is None

    def test_concurrent_workers_do_not_mix_their_objects(self, tier: NativeTier) -> None:
        """Calls on several keys overlap; each worker has its own buffer and its own pattern."""
        size, problems = 150_000, list[Any]()

        def work(worker: int) -> None:
            make = tier.make_host_buffer if isinstance(tier, GpuTier) else HostBuffer
            own = make(size + ALIGNMENT)
            try:
                for round_ in range(6):
                    key, value = 10 * worker + round_ % 3, 1 + worker * 10 + round_
                    tier.discard(key)
                    own.bytes[:] = value
                    with tier.create(key, size) as target:
                        target.write(0, size, own)
                        target.finish()
                    own.bytes[:] = 0
                    with tier.open(key, size) as source:
                        source.read(0, size, own)
                    if tier.keeps_bytes and not (own.bytes[:size] == value).all():
                        problems.append((worker, round_))
            except BaseException as error:  # noqa: BLE001 (the main thread's assertion shows it)
                problems.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []


class ArenaContract(TierContract):
    """The behaviour of tiers in memory besides: compiled code keeps their books."""

    def make(self, size: int) -> NativeTier:
        raise NotImplementedError

    def test_a_full_tier_refuses_further_objects(self) -> None:
        tier = self.make(10_000)
        put(tier, 1, 6000)
        with pytest.raises(OSError, match="arena") as refused:
            tier.create(2, 4001)
        assert refused.value.errno == errno.ENOMEM
        put(tier, 2, 4000)
        assert find_damage(tier, 1, 6000) is None
        assert find_damage(tier, 2, 4000) is None

    @settings(suppress_health_check=[HealthCheck.differing_executors])  # each subclass is another tier
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30_000)), min_size=25, max_size=60))
    def test_an_object_fits_however_fragmented_the_arena_is(self, steps: list[tuple[int, int]]) -> None:
        check_every_fragment_is_used(self.make(80_000), 80_000, steps)


class DiskContract(TierContract):
    """The behaviour of tiers on a drive besides; subclasses have other requests."""

    io = BlockIO()

    def test_short_transfers_are_continued(self, tier: NativeTier) -> None:
        with short_transfers():
            put(tier, 1, 70_000)
            assert find_damage(tier, 1, 70_000) is None


def extents_of(tier: SlabTier, key: int, size: int) -> list[tuple[int, int]]:
    """List an object's extents as (start, bytes) in the room of all slabs."""
    with tier.open(key, size) as source:
        opened = source.struct  # type: ignore[attr-defined]
        first = opened.extent_list or ctypes.addressof(opened.extent)
        extents = ctypes.cast(first, ctypes.POINTER(Extent))
        return [(extents[i].start, extents[i].bytes) for i in range(opened.extents)]


@contextmanager
def short_transfers() -> Iterator[None]:
    """Every transfer moves at most one block."""
    most = variable("submit_most")
    before, most.value = most.value, ALIGNMENT
    try:
        with (
            system_calls.replaced("pread", lambda *at: system_calls.pread(*at[:2], min(at[2], ALIGNMENT), at[3])),
            system_calls.replaced("pwrite", lambda *at: system_calls.pwrite(*at[:2], min(at[2], ALIGNMENT), at[3])),
        ):
            yield
    finally:
        most.value = before


@contextmanager
def interrupted_calls() -> Iterator[None]:
    """Every other call is interrupted by a signal before it begins."""
    calls = 0

    def every_other(call: Callable[..., int]) -> Callable[..., int]:
        def made(*request: int) -> int:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise InterruptedError(errno.EINTR, "Interrupted system call")
            return call(*request)

        return made

    with (
        system_calls.replaced("pread", every_other(system_calls.pread)),
        system_calls.replaced("pwrite", every_other(system_calls.pwrite)),
        system_calls.replaced("enter", every_other(system_calls.enter)),
    ):
        yield
    assert calls


def list_rings() -> list[str]:
    """List the descriptors of this process's rings."""
    entries = Path("/proc/self/fdinfo").iterdir()
    files = [file for file in entries if file.exists()]  # iterdir's own is gone
    return [file.name for file in files if "SqTail" in file.read_text()]


def count_in_flight(ring: str | int) -> int:
    """Count the requests of a ring whose results have not been taken."""
    fields = dict(re.findall(r"^(\w+):\s+(\d+)$", Path(f"/proc/self/fdinfo/{ring}").read_text(), re.M))
    return int(fields["SqTail"]) - int(fields["CqHead"])


def check_sentence(error: InputError, *words: str) -> None:
    assert "\n" not in str(error)
    assert str(error).endswith(".")
    for word in words:
        assert word in str(error), str(error)


Disk = Callable[..., Any]


def throttled(tier: Any, mib_s: float, latency_us: float = 0) -> Any:
    """The tier behind a throttle."""
    Throttle(mib_s, latency_us).slow_down(tier)
    return tier
