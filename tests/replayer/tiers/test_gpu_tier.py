"""The gpu tier, on torch's CPU device and on a real one."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from replayer.tiers import gpu
from replayer.tiers.base import ALIGNMENT
from replayer.tiers.native import NativeTier
from tests.replayer.tiers.contract import (
    CHUNK,
    MIB,
    PAYLOAD,
    ArenaContract,
    check_sentence,
    file_tier,
    find_damage,
    gpu_tier,
    has_cuda,
    host_buffer,
    put,
    throttled,
)
from tracegen.errors import InputError


class GpuContract(ArenaContract):
    device = "cpu"

    @pytest.fixture(params=["host", "device"])
    def tier(self, request: pytest.FixtureRequest) -> Iterator[NativeTier]:
        pytest.importorskip("torch")
        tier = gpu_tier(32 * MIB, self.device)
        if request.param == "device":
            tier.tests_on_device = tier.make_device_buffer(CHUNK)  # type: ignore[attr-defined]
            assert tier.tests_on_device.tensor.device.type == self.device  # type: ignore[attr-defined]
        yield tier
        tier.close()

    def make(self, size: int) -> NativeTier:
        pytest.importorskip("torch")
        return gpu_tier(size, self.device, objects=10)

    def test_device_time_is_within_the_calls_time(self) -> None:
        pytest.importorskip("torch")
        tier = gpu_tier(2 * CHUNK, self.device)
        on_device, buffer = tier.make_device_buffer(CHUNK), tier.make_host_buffer(CHUNK)
        with tier.create(1, CHUNK) as target:
            began = time.perf_counter_ns()
            target.write(0, CHUNK, buffer)
            assert 0 < target.device_ns <= time.perf_counter_ns() - began
        for where in (buffer, on_device):
            with tier.open(1, CHUNK) as source:
                began = time.perf_counter_ns()
                source.read(0, CHUNK, where)
                assert 0 < source.device_ns <= time.perf_counter_ns() - began

    def test_a_throttle_limits_reads_and_writes(self) -> None:
        """Throttled time is device time; stop_waiting ends the waits."""
        pytest.importorskip("torch")
        tier = throttled(gpu_tier(2 * CHUNK, self.device), 40)
        with tier.create(1, CHUNK) as target:
            began = time.perf_counter_ns()
            target.write(0, CHUNK, host_buffer(tier))
            assert 90_000_000 <= target.device_ns <= time.perf_counter_ns() - began
            assert time.perf_counter_ns() - began >= 100_000_000
        with tier.open(1, CHUNK) as source:
            began = time.perf_counter_ns()
            source.read(0, CHUNK, host_buffer(tier))
            assert source.device_ns >= 90_000_000
            assert time.perf_counter_ns() - began >= 100_000_000
        slow = throttled(tier, 0.01)
        slow.stop_waiting()
        with tier.open(1, CHUNK) as source:
            source.read(0, CHUNK, host_buffer(tier))
            assert source.device_ns < 10_000_000_000

    def test_bytes_in_device_memory_are_written(self) -> None:
        pytest.importorskip("torch")
        tier = gpu_tier(2 * CHUNK, self.device)
        on_device, buffer = tier.make_device_buffer(CHUNK), tier.make_host_buffer(CHUNK)
        PAYLOAD.fill(buffer.words, 1, 0, CHUNK)
        on_device.copy_from_host(buffer, CHUNK)
        buffer.bytes[:] = 0
        with tier.create(1, CHUNK) as target:
            target.write(0, CHUNK, on_device)
        assert find_damage(tier, 1, CHUNK) is None

    def test_host_buffers_suit_o_direct(self, tmp_path: Path) -> None:
        """A demotion from the gpu tier to the nvme tier writes from them."""
        pytest.importorskip("torch")
        tier = gpu_tier(4096, self.device)
        for size in (4096, 70_000 // 4096 * 4096, CHUNK):
            buffer = tier.make_host_buffer(size)
            assert buffer.words.ctypes.data % ALIGNMENT == 0
            assert len(buffer.view) == len(buffer.bytes) == buffer.words.nbytes == size
            assert np.shares_memory(buffer.words, buffer.bytes)
            assert buffer.tensor.data_ptr() == buffer.words.ctypes.data
        disk = file_tier(tmp_path)
        PAYLOAD.fill(buffer.words, 1, 0, CHUNK)
        with disk.create(1, CHUNK) as target:
            target.write(0, CHUNK, buffer)
        assert find_damage(disk, 1, CHUNK) is None
        disk.close()

    def test_the_device_is_described(self) -> None:
        pytest.importorskip("torch")
        facts = gpu.describe_gpu(self.device)
        assert facts.emulated is (self.device == "cpu")
        assert facts.torch == sys.modules["torch"].__version__

    def test_more_memory_than_the_device_has_is_refused(self) -> None:
        pytest.importorskip("torch")
        with pytest.raises(InputError) as refused:
            gpu_tier(1 << 60, self.device)
        check_sentence(refused.value, "gpu_mem_gb", "GiB")


class TestGpuTierOnTheCpu(GpuContract):
    pass


@pytest.fixture(scope="module")
def cuda() -> None:
    if not has_cuda():
        pytest.skip("needs a GPU")


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
class TestGpuTier(GpuContract):
    device = "cuda"

    def test_the_arena_is_zero_before_the_first_write(self) -> None:
        """Writes use streams of their own, which do not wait for the stream that clears the arena."""
        for _ in range(3):
            tier = gpu_tier(4 << 30, self.device)
            put(tier, 1, CHUNK)
            with tier.create(2, (4 << 30) - CHUNK) as rest:
                rest.write((4 << 30) - 2 * CHUNK, CHUNK, host_buffer(tier))
            assert find_damage(tier, 1, CHUNK) is None
            tier.close()


@pytest.mark.skipif("has_cuda()", reason="for machines without a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:7", "cpu:0", "nonsense"])
def test_missing_devices_are_refused(device: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(InputError) as refused:
        gpu_tier(MIB, device)
    check_sentence(refused.value, f"gpu_device: {device}", "`gpu_mem_gb=0`")


def test_without_torch_the_gpu_tier_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for make in (lambda: gpu_tier(MIB, "cpu"), lambda: gpu.describe_gpu("cpu")):
        with pytest.raises(InputError) as refused:
            make()
        check_sentence(refused.value, "the gpu tier needs torch", "pip install", "`gpu_mem_gb=0`")
