"""The common behaviour of both layouts of the nvme tier: syncs, O_DIRECT, requests in flight."""

import errno
import fcntl
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.pace import Pace
from replayer.planning.plan import PlanOptions
from replayer.run.replay import Replay
from replayer.schema import parts
from replayer.tiers.base import ALIGNMENT, HostBuffer
from tests.replayer.tiers.contract import (
    BUFFER,
    CHUNK,
    PAYLOAD,
    Disk,
    check_sentence,
    count_in_flight,
    find_damage,
    list_rings,
    put,
)
from tests.support import system_calls, traces
from tests.support.run_settings import settings as make_settings
from tracegen.errors import InputError


def test_fsync_is_part_of_the_write(disk: Disk) -> None:
    synced: list[int] = []

    def fdatasync(descriptor: int) -> None:
        os.fstat(descriptor)  # still open
        synced.append(descriptor)
        time.sleep(0.05)

    tier = disk(fsync="data")
    with system_calls.replaced("fdatasync", fdatasync), tier.create(1, 10_000) as target:
        target.write(0, 10_000, BUFFER)
        assert synced == [], "once, after the last write"
        before = target.device_ns
        target.finish()
        assert len(synced) == 1
        assert target.device_ns - before >= 50_000_000, "device time"
        with tier.open(1, 10_000) as source:
            source.read(0, 10_000, BUFFER)
        assert len(synced) == 1
    tier.close()


def test_nothing_is_synced_without_fsync(disk: Disk) -> None:
    with system_calls.replaced("fdatasync", lambda _: pytest.fail("synced")):
        put(disk(fsync="none"), 1, 10_000)


def test_a_sync_that_fails_fails_the_write(disk: Disk) -> None:
    def fdatasync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with system_calls.replaced("fdatasync", fdatasync), pytest.raises(OSError, match="Input/output") as refused:
        put(disk(fsync="data"), 1, 10_000)
    assert Path(refused.value.filename).exists()


def refuse_o_direct(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    whole = os.open

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(number, os.strerror(number), str(path))
        return whole(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", opened)


def test_a_file_system_without_o_direct_is_refused_only_if_it_must_have_it(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_o_direct(monkeypatch, errno.EINVAL)
    with pytest.raises(InputError) as refused:
        disk(direct="on")
    check_sentence(refused.value, f"cache_dir {tmp_path}: refuses O_DIRECT", "`direct=auto`")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    tier = disk(direct="auto")
    assert tier.direct is False
    put(tier, 1, 70_000)
    assert find_damage(tier, 1, 70_000) is None
    tier.close()


def test_another_error_of_the_probe_is_not_taken_for_missing_o_direct(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken disk must not pass for one without O_DIRECT."""
    refuse_o_direct(monkeypatch, errno.EIO)
    with pytest.raises(InputError) as refused:
        disk(direct="auto")
    check_sentence(refused.value, f"cache_dir {tmp_path}", "Input/output error")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("direct", ["on", "off"])
def test_descriptors_have_o_direct_as_the_setting_says(disk: Disk, direct: str) -> None:
    seen: list[int] = []

    def note(whole: system_calls.Transfer) -> system_calls.Transfer:
        def call(descriptor: int, *request: int) -> int:
            seen.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
            return whole(descriptor, *request)

        return call

    try:
        tier = disk(direct=direct)
    except InputError:
        pytest.skip("no O_DIRECT here")
    with (
        system_calls.replaced("pread", note(system_calls.pread)),
        system_calls.replaced("pwrite", note(system_calls.pwrite)),
    ):
        put(tier, 1, 70_000)
        assert find_damage(tier, 1, 70_000) is None
    assert tier.direct is (direct == "on")
    assert set(seen) == ({os.O_DIRECT} if direct == "on" else {0})
    tier.close()


@system_calls.needs_uring
@pytest.mark.parametrize("depth", [1, 3, 4, 7, 100])
def test_as_many_requests_of_an_object_are_in_flight_as_the_depth_allows(disk: Disk, depth: int) -> None:
    """A ring has 64 slots; all requests are made."""
    tier, seen, given = disk(size=ALIGNMENT, depth=depth, engine="uring"), list[int](), list[int]()

    def enter(ring: int, count: int, *more: int) -> int:
        seen.append(count_in_flight(ring))
        given.append(count)
        return system_calls.enter(ring, count, *more)

    for call in (lambda: put(tier, 1, 130 * ALIGNMENT), lambda: find_damage(tier, 1, 130 * ALIGNMENT)):
        seen.clear()
        given.clear()
        with system_calls.replaced("enter", enter):
            assert not call()
        assert seen[0] == max(seen) == min(depth, 64)
        assert sum(given) == 130
    tier.close()


@system_calls.needs_uring
def test_a_ring_that_failed_is_closed(disk: Disk) -> None:
    """Requests in flight are waited for: the worker uses its buffer again at once."""
    tier, size, calls = disk(size=ALIGNMENT, depth=4, engine="uring"), 30 * ALIGNMENT, 0
    put(tier, 1, size)

    def enter(*request: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOMEM, "no memory")
        return system_calls.enter(request[0], request[1], 0, 0)  # does not wait: some are still in flight

    before = set(list_rings())
    with tier.open(1, size) as source:
        with system_calls.replaced("enter", enter), pytest.raises(OSError, match="Cannot allocate memory"):
            source.read(0, size, BUFFER)
        BUFFER.bytes[:] = 0
        time.sleep(0.05)
        assert not BUFFER.bytes.any(), "nothing is written into the buffer any more"
        assert set(list_rings()) < before, "closed"
        source.read(0, size, BUFFER)
    assert PAYLOAD.check(BUFFER.words, 1, 0, size) is None
    tier.close()


def test_no_request_follows_one_that_failed(disk: Disk) -> None:
    """Requests are made one by one; the first error is reported."""
    tier, asked = disk(size=64 << 10), list[int]()
    put(tier, 1, 4 * (64 << 10))

    def pread(descriptor: int, address: int, size: int, at: int) -> int:
        asked.append(at)
        if at == 2 * (64 << 10):
            raise OSError(errno.EIO, "Input/output error")
        return system_calls.pread(descriptor, address, size, at)

    with (
        system_calls.replaced("pread", pread),
        tier.open(1, 4 * (64 << 10)) as source,
        pytest.raises(OSError, match="Input/output"),
    ):
        source.read(0, 4 * (64 << 10), BUFFER)
    assert asked == [0, 64 << 10, 2 * (64 << 10)]
    tier.close()


@pytest.mark.parametrize("tier", ["cpu", "nvme"])
def test_an_execution_may_hold_more_objects_than_its_plan(tmp_path: Path, tier: str) -> None:
    """Five objects leave late, five more come before: padding for ten, though the plan has five."""
    steps = [(op, key, 4097) for op in "wx" for key in range(5)] + [("w", key, 4097) for key in range(5, 10)]
    batch = traces.columns(
        steps, [0] * 10 + [1] * 5, step=[*range(10), *range(5)], new_tokens=[0] * 4 + [400] + [0] * 10
    )
    room, none = Decimal(10 * 4097) / 2**30, Decimal(0)
    (tmp_path / "cache").mkdir()
    flags = make_settings(4, cache_dir=tmp_path / "cache", layout="slab", pace=Pace(token_ms=1), verify="full")
    usable = (none, room, none) if tier == "cpu" else (none, none, room)
    plan = PlanOptions(TokenBytes(1), usable, headroom=Decimal(1), demand=flags.demand)
    info = Replay(traces.write(tmp_path / "t.parquet", batch), "test", plan, flags, tmp_path / "run").run().to_json()
    log = pl.read_parquet(parts(tmp_path / "run")).with_columns(pl.col("move").cast(pl.String))
    late = log.filter(pl.col("move") == "delete")["start_ns"].min()
    assert late > log.filter(pl.col("key") >= 5)["end_ns"].max(), "all ten were there"  # type: ignore[operator]
    assert (info["status"], log["error"].drop_nulls().to_list()) == ("complete", [])


def test_buffers_are_aligned_for_o_direct() -> None:
    assert HostBuffer(CHUNK).words.ctypes.data % ALIGNMENT == 0
    assert np.shares_memory(BUFFER.words, BUFFER.bytes)
