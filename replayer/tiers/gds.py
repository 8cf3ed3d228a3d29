"""The nvme tier by GPUDirect Storage: hits and stores go between its files and the GPU's memory.

Demotions and promotions go through host memory, as they do without GPUDirect Storage.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from replayer.tiers.base import Buffer, HostBuffer, align_up
from replayer.tiers.disk import FileTier, file_name
from replayer.tiers.gpu import tensor_of
from replayer.tiers.native import CREATE, READ, WRITE, NativeObject
from replayer.tiers.request import TierRequest
from tracegen.errors import InputError, missing_package


def load_kvikio() -> Any:
    """Import kvikio and check that cuFile can do GPUDirect Storage.

    Raises:
        InputError: kvikio is not installed, or this machine has no GPUDirect Storage.
    """
    try:
        import kvikio  # noqa: PLC0415 (an extra)
        import kvikio.cufile_driver  # noqa: PLC0415

        # Without it cuFile copies through the host, and the figures would not be those of GPUDirect Storage.
        is_available = kvikio.cufile_driver.properties.is_gds_available
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        feature = "GPUDirect Storage"
        alternative = "or leave out `gds`"
        raise missing_package(feature, "kvikio-cu12", "gds", reason=reason, alternative=alternative) from None
    if not is_available:
        raise InputError("this machine lacks cuFile with GPUDirect Storage", "leave out `gds`", setting="gds")
    return kvikio


class GdsTier(FileTier):
    """Files that cuFile reads and writes; otherwise as FileTier."""

    is_compiled = False

    def __init__(self, request: TierRequest) -> None:
        self._kvikio = load_kvikio()
        super().__init__(request)

    def _make_object(self, function: Callable[..., int], key: int, size: int) -> NativeObject:
        return _GdsObject(function, self, key, size)

    def open_cufile(self, key: int, flags: str) -> Any:
        """Open an object's file for cuFile."""
        # By the folder's descriptor, as the kernel's calls do: the folder may have been renamed.
        return self._kvikio.CuFile(Path(f"/proc/self/fd/{self._cache.descriptor}") / file_name(key), flags)


class _GdsObject(NativeObject):
    """A file, open twice: for the kernel, and for cuFile, to which moves of device memory go."""

    def __init__(self, function: Callable[..., int], tier: GdsTier, key: int, size: int) -> None:
        super().__init__(function, tier, key, size)
        try:
            self._file = tier.open_cufile(key, "r+" if function is CREATE else "r")
        except RuntimeError as error:  # kvikio's form of cuFile's errors
            super().__exit__()
            raise OSError(errno.EIO, str(error)) from None

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        if isinstance(buffer, HostBuffer):
            super().read(offset, length, buffer)
        else:
            self._call_cufile(self._file.raw_read, offset, align_up(length), length, buffer)
        self.wait_turn(READ, length, began)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        if isinstance(buffer, HostBuffer):
            super().write(offset, length, buffer)
        else:
            # cuFile writes whole blocks; the padding is payload, so that no sector repeats.
            whole = align_up(length)
            self._call_cufile(self._file.raw_write, offset, whole, whole, buffer)
        self.wait_turn(WRITE, length, began)

    def _call_cufile(self, function: Callable[..., int], offset: int, size: int, least: int, buffer: Buffer) -> None:
        """Call cuFile until at least `least` of `size` bytes are moved."""
        tensor = tensor_of(buffer)
        began = perf_counter_ns()
        done = 0
        while done < least:
            try:
                count = function(tensor[done:size], size - done, offset + done)
            except RuntimeError as error:
                raise OSError(errno.EIO, str(error)) from None
            if count <= 0:
                raise OSError(errno.EIO, f"short transfer by cuFile: ends at byte {offset + done}")
            done += count
        self.struct.device_ns += perf_counter_ns() - began

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        super().__exit__(*exception)
