"""The gpu tier: one arena of device memory, copied through pinned host buffers (torch: CUDA, ROCm).

Torch's CPU device runs the same code without a GPU, for tests; such a run is marked as emulated.
"""

import errno
import re
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from replayer.record.run_parts import Gpu
from replayer.tiers.base import ALIGNMENT, Buffer, HostBuffer, arena_bytes
from replayer.tiers.native import READ, WRITE, MemoryTier, NativeObject
from replayer.tiers.request import TierRequest
from tracegen import memory
from tracegen.errors import InputError, missing_package

_NO_GPU_TIER = "pass `gpu_mem_gb=0`"


def load_torch(device: str, alternative: str = _NO_GPU_TIER) -> Any:
    """Import torch and check that it can use a device.

    Args:
        device: cpu, cuda or cuda:N; on ROCm, too, torch calls the device cuda.
        alternative: how to do without the tier, as an imperative clause.

    Raises:
        InputError: torch is not installed, or the device is not there.
    """
    # torch takes more names, such as mps, whose streams and events differ.
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        remedy = f"pass cuda or cuda:N (on ROCm, too), or {alternative}"
        raise InputError(f"{device} is not a device", remedy, setting="gpu_device")
    try:
        import torch  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError:
        raise missing_package("the gpu tier", "torch", "gpu", alternative=f"or {alternative}") from None
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{device} cannot be used ({reason})", alternative, setting="gpu_device") from None
    return torch


def free_gpu_bytes(device: str, alternative: str = _NO_GPU_TIER) -> int:
    """Return the bytes that are free on a device; for cpu, a quarter of the host's free memory.

    Args:
        device: as of `load_torch`.
        alternative: as of `load_torch`.

    Raises:
        InputError: as `load_torch`.
    """
    torch = load_torch(device, alternative)
    if device == "cpu":
        return memory.available().bytes // 4  # the cpu tier and the page cache want the rest
    return int(torch.cuda.mem_get_info(device)[0])


def describe_gpu(device: str) -> Gpu:
    """Describe a device for run.json.

    Raises:
        InputError: as `load_torch`.
    """
    torch = load_torch(device)
    if device == "cpu":
        return Gpu(device="cpu", emulated=True, torch=str(torch.__version__))
    facts = torch.cuda.get_device_properties(device)
    return Gpu(
        device=torch.cuda.get_device_name(device),
        emulated=False,
        memory_bytes=facts.total_memory,
        torch=str(torch.__version__),  # a text of torch's own type
        runtime=torch.version.cuda or torch.version.hip,
    )


class PinnedBuffer(HostBuffer):
    """A staging buffer in pinned memory, which the device copies without the driver's own staging.

    Attributes:
        tensor: the whole buffer as a tensor of uint8.
    """

    def __init__(self, size: int, torch: Any, *, pinned: bool) -> None:
        whole = torch.empty(size + ALIGNMENT, dtype=torch.uint8, pin_memory=pinned)
        skip = -whole.data_ptr() % ALIGNMENT  # CUDA page-aligns pinned memory; other memory is not
        self.tensor = whole[skip : skip + size]
        super().__init__(size, self.tensor.numpy())


class DeviceBuffer:
    """A buffer in the device's memory, for reads that end on the device and GPUDirect Storage.

    Attributes:
        tensor: the whole buffer as a tensor of uint8.
    """

    def __init__(self, size: int, torch: Any, device: str) -> None:
        self.tensor = torch.empty(size, dtype=torch.uint8, device=device)

    def copy_to_host(self, host: HostBuffer, length: int) -> None:
        tensor_of(host)[:length].copy_(self.tensor[:length])

    def copy_from_host(self, host: HostBuffer, length: int) -> None:
        self.tensor[:length].copy_(tensor_of(host)[:length])


def tensor_of(buffer: Buffer) -> Any:
    """Return the tensor behind a buffer of this module."""
    assert isinstance(buffer, PinnedBuffer | DeviceBuffer), "the gpu tier copies its own buffers"
    return buffer.tensor


class _Clock:
    """Copies on a worker's own stream, timed by its events; on torch's CPU device by the host."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch = torch
        # One for each worker: on a shared stream, one worker would wait for the copies of others.
        self._stream = None
        if device != "cpu":
            self._stream = torch.cuda.Stream(device)
            self._begin = torch.cuda.Event(enable_timing=True)
            self._end = torch.cuda.Event(enable_timing=True)

    def copy(self, pairs: list[tuple[Any, Any]]) -> int:
        """Copy the second tensor of each pair to the first, and wait for this stream alone.

        Returns:
            Nanoseconds on the device's clock.
        """
        if self._stream is None:
            began = perf_counter_ns()
            for target, source in pairs:
                target.copy_(source)
            return perf_counter_ns() - began
        with self._torch.cuda.stream(self._stream):
            self._begin.record()
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
            self._end.record()
        self._end.synchronize()
        return int(self._begin.elapsed_time(self._end) * 1e6)


class GpuTier(MemoryTier):
    """An arena of device memory, allocated when the tier opens; an object is a list of its extents.

    Raises:
        InputError: as `load_torch`, or the device has too little free memory.
    """

    is_compiled = False

    def __init__(self, request: TierRequest) -> None:
        self._device = request.gpu_device
        self._torch = load_torch(self._device)
        self._local = threading.local()  # the stream of each worker
        size = arena_bytes(request.capacity, request.objects)
        try:
            self.arena = self._torch.zeros(size, dtype=self._torch.uint8, device=self._device)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            reason = str(error).splitlines()[0]
            problem = f"{size / 2**30:.2f} GiB of GPU memory cannot be allocated ({reason})"
            raise InputError(problem, "pass less", setting="gpu_mem_gb") from None
        if self._device != "cpu":
            self._torch.cuda.synchronize(self._device)  # zeroed before the stream of any worker writes
        super().__init__("gpu tier", request.capacity, size)

    def make_host_buffer(self, size: int) -> PinnedBuffer:
        """Allocate a worker's staging buffer."""
        return PinnedBuffer(size, self._torch, pinned=self._device != "cpu")

    def make_device_buffer(self, size: int) -> DeviceBuffer:
        """Allocate a worker's buffer in the device's memory."""
        return DeviceBuffer(size, self._torch, self._device)

    def clock(self) -> _Clock:
        """Return the stream of this thread."""
        if not hasattr(self._local, "clock"):
            self._local.clock = _Clock(self._torch, self._device)
        clock: _Clock = self._local.clock
        return clock

    def _make_object(self, function: Callable[..., int], key: int, size: int) -> NativeObject:
        return _GpuObject(function, self, key, size)

    def close(self) -> None:
        super().close()
        self.arena = None


class _GpuObject(NativeObject):
    """Extents of the arena, as one object; compiled code knows where they are, and torch copies them."""

    def __init__(self, function: Callable[..., int], tier: GpuTier, key: int, size: int) -> None:
        super().__init__(function, tier, key, size)
        self._extents = self.extents()
        self._arena = tier.arena
        self._clock = tier.clock()

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        pairs = [(there, here) for here, there in self._slices(offset, length, buffer)]
        self._copy(pairs, READ, length)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        self._copy(self._slices(offset, length, buffer), WRITE, length)

    def _slices(self, offset: int, length: int, buffer: Buffer) -> list[tuple[Any, Any]]:
        """Pair the slices of the arena that hold the object's bytes from `offset` on with those of a buffer."""
        tensor = tensor_of(buffer)
        pairs = []
        begin = 0  # of the extent, in the object
        for start, size in self._extents:
            low = max(offset, begin)
            high = min(offset + length, begin + size)
            if low < high:
                place = start + low - begin
                pairs.append((self._arena[place : place + high - low], tensor[low - offset : high - offset]))
            begin += size
        return pairs

    def __exit__(self, *exception: object) -> None:
        """Do nothing: memory needs no closing."""

    def _copy(self, pairs: list[tuple[Any, Any]], direction: int, length: int) -> None:
        began = perf_counter_ns()
        try:
            self.struct.device_ns += self._clock.copy(pairs)
        except RuntimeError as error:  # of the device
            raise OSError(errno.EIO, str(error).splitlines()[0]) from None
        self.wait_turn(direction, length, began)
