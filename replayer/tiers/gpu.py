"""The gpu tier: one arena of device memory, copied through pinned host buffers (PyTorch: CUDA, ROCm).

Torch's CPU device runs the same code without a GPU, for tests; such a run is marked as emulated.
"""

import errno
import re
import threading
from time import perf_counter_ns
from typing import Any, Literal

import numpy as np

from replayer.bindings.compiled import call
from replayer.machine import free_memory as memory
from replayer.tiers.base import Buffer, Landing, Object, Plain
from replayer.tiers.free_extents import Extents, pieces
from tracegen.errors import InputError, missing_package

GpuRead = Literal["host", "device"]

_elsewhere, _free_tier, _throttle, _pass, _hurry = (
    call(f"tier_{name}") for name in ("elsewhere", "free", "throttle", "pass", "hurry")
)


def torch_for(device: str) -> Any:
    """PyTorch, where it can use this device.

    Raises:
        InputError: PyTorch is not installed, or there is no such device.
    """
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise InputError(f"--gpu-device {device} is none; pass cuda or cuda:N (on ROCm, too), or --gpu-mem-gb 0.")
    try:
        import torch  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError:
        raise missing_package("--gpu-mem-gb", "torch", "gpu", alternative="or pass --gpu-mem-gb 0") from None
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--gpu-device {device} cannot be used ({reason}); pass --gpu-mem-gb 0.") from None
    return torch


def free_bytes(device: str) -> int:
    """Memory that is free on the device; emulated in host memory, a quarter of what is available there.

    Raises:
        InputError: as `torch_for`.
    """
    torch = torch_for(device)
    return memory.available().bytes // 4 if device == "cpu" else int(torch.cuda.mem_get_info(device)[0])


def describe(device: str) -> dict[str, Any]:
    """What run.json says about the GPU."""
    torch = torch_for(device)
    if device == "cpu":
        return {"device": "cpu", "emulated": True, "torch": torch.__version__}
    facts = torch.cuda.get_device_properties(device)
    return {
        "device": torch.cuda.get_device_name(device),
        "emulated": False,
        "memory_bytes": facts.total_memory,
        "torch": torch.__version__,
        "runtime": torch.version.cuda or torch.version.hip,
    }


class PinnedBuffer(Buffer):
    """A staging buffer in pinned memory, which copies reach without the driver's own staging.

    Attributes:
        tensor: the whole buffer as a tensor of uint8.
    """

    def __init__(self, size: int, torch: Any, *, pinned: bool) -> None:
        whole = torch.empty(size + 4096, dtype=torch.uint8, pin_memory=pinned)
        skip = -whole.data_ptr() % 4096  # pinned memory is page-aligned by CUDA, other memory is not
        self.tensor = whole[skip : skip + size]
        self.bytes = self.tensor.numpy()
        self.words, self.view = self.bytes.view(np.uint64), memoryview(self.bytes)  # type: ignore[arg-type]


class DeviceBuffer(Landing):
    """A buffer in the device's memory, for `--gpu-read device` and GPUDirect Storage.

    Attributes:
        tensor: the whole buffer as a tensor of uint8.
    """

    def __init__(self, size: int, torch: Any, device: str) -> None:
        self.tensor = torch.empty(size, dtype=torch.uint8, device=device)

    def fetch(self, length: int, buffer: Buffer) -> None:
        tensor_of(buffer)[:length].copy_(self.tensor[:length])

    def stage(self, length: int, buffer: Buffer) -> None:
        self.tensor[:length].copy_(tensor_of(buffer)[:length])


def tensor_of(buffer: Buffer) -> Any:
    """The tensor behind a buffer of this module."""
    assert isinstance(buffer, PinnedBuffer | DeviceBuffer), "the gpu tier copies through its own buffers"
    return buffer.tensor


class _Clock:
    """Times copies on a worker's own stream, by its events; on torch's CPU device by the host's clock."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch, self._stream = torch, None
        if device != "cpu":
            self._stream = torch.cuda.Stream(device)
            self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def copy(self, pairs: list[tuple[Any, Any]]) -> int:
        """Copy each second tensor to the first; nanoseconds on the device's clock. Waits for this stream alone."""
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


class GpuTier:
    """One arena of device memory, allocated at the start; an object is a list of extents of it.

    Args:
        usable: bytes of the arena.
        device: as torch names it: cuda, cuda:1, cpu.

    Raises:
        InputError: the device is not there or has not so much memory.
    """

    keeps_bytes = True

    def __init__(self, usable: int, device: str) -> None:
        self._throttled, self.engine_handle = False, int(_elsewhere())
        self._torch, self._device, self._local = torch_for(device), device, threading.local()
        try:
            self._arena = self._torch.zeros(usable, dtype=self._torch.uint8, device=device)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            reason = str(error).splitlines()[0]
            raise InputError(
                f"--gpu-mem-gb: {usable / 2**30:.2f} GiB usable are not to be had ({reason}); pass less."
            ) from None
        if device != "cpu":
            self._torch.cuda.synchronize(device)  # zeroed before any stream of a worker writes
        self._room = Extents(usable)

    def buffer(self, size: int) -> PinnedBuffer:
        """A worker's staging buffer."""
        return PinnedBuffer(size, self._torch, pinned=self._device != "cpu")

    def landing(self, size: int) -> DeviceBuffer:
        """A worker's buffer in the device's memory."""
        return DeviceBuffer(size, self._torch, self._device)

    def _clock(self) -> "_Clock":
        """This thread's stream."""
        if not hasattr(self._local, "clock"):
            self._local.clock = _Clock(self._torch, self._device)
        clock: _Clock = self._local.clock
        return clock

    def create(self, key: int, size: int) -> Object:
        if (extents := self._room.take(key, size)) is None:
            raise OSError(errno.ENOMEM, f"no {size} bytes free in the gpu tier's arena")
        return _GpuObject(self._arena, extents, self._clock(), self.engine_handle if self._throttled else None)

    def open(self, key: int, size: int) -> Object:
        if (extents := self._room.of(key)) is None:
            raise FileNotFoundError(errno.ENOENT, f"no object {key} in the gpu tier")
        return _GpuObject(self._arena, extents, self._clock(), self.engine_handle if self._throttled else None)

    def discard(self, key: int) -> None:
        self._room.give(key)

    def throttle(self, mib_s: float, latency_us: float, write_mib_s: float | None = None) -> None:
        _throttle(self.engine_handle, mib_s, write_mib_s or mib_s, latency_us)
        self._throttled = True

    def hurry(self) -> None:
        _hurry(self.engine_handle)

    def close(self) -> None:
        self._room, self._arena = Extents(0), None

    def __del__(self) -> None:
        if hasattr(self, "engine_handle"):
            _free_tier(self.engine_handle)


class _GpuObject(Plain):
    def __init__(self, arena: Any, extents: list[tuple[int, int]], clock: _Clock, throttled: int | None) -> None:
        self._arena, self._extents, self._clock, self._throttled = arena, extents, clock, throttled

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        self._copy(offset, length, tensor_of(buffer), out=True)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        self._copy(offset, length, tensor_of(buffer), out=False)

    def _copy(self, offset: int, length: int, other: Any, *, out: bool) -> None:
        pairs, began = [], perf_counter_ns()
        for place, start, count in pieces(self._extents, offset, length):
            here, there = self._arena[start : start + count], other[place : place + count]
            pairs.append((there, here) if out else (here, there))
        try:
            self.device_ns += self._clock.copy(pairs)
            if self._throttled is not None:
                copied = perf_counter_ns()
                _pass(self._throttled, not out, length, began)
                self.device_ns += perf_counter_ns() - copied
        except RuntimeError as error:  # of the device
            raise OSError(errno.EIO, str(error).splitlines()[0]) from None
