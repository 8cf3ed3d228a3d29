"""The nvme tier by GPUDirect Storage: hits and stores go between its files and the GPU's memory.

Demotions and promotions go through host memory, as they do without GPUDirect Storage.
"""

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from replayer.tiers.base import Buffer, align_up
from replayer.tiers.disk import FileTier, file_name
from replayer.tiers.gpu import tensor_of
from replayer.tiers.native import CREATE, NativeObject
from replayer.tiers.request import TierRequest
from replayer.tiers.throttled import READ, WRITE, wait_turn
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
        # By the folder's descriptor, as the kernel's calls do: the folder may have been renamed.
        path = Path(f"/proc/self/fd/{self._cache.descriptor}") / file_name(key)
        flags = "r+" if function is CREATE else "r"
        open_cufile = partial(self._kvikio.CuFile, path, flags)
        throttle = self.engine_handle if self.is_throttled else 0
        return _GdsObject(function, self._open_handle(), key, size, throttle, open_cufile)


class _GdsObject(NativeObject):
    """A file, open twice: for the kernel, and for cuFile, to which moves of device memory go."""

    def __init__(
        self,
        function: Callable[..., int],
        handle: int,
        key: int,
        size: int,
        throttle: int,
        open_cufile: Callable[[], Any],
    ) -> None:
        super().__init__(function, handle, key, size)
        self._throttle = throttle
        try:
            self._file = open_cufile()
        except RuntimeError as error:  # kvikio's form of cuFile's errors
            super().__exit__()
            raise OSError(errno.EIO, str(error)) from None

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        if buffer.is_on_device:
            self._call_cufile(self._file.raw_read, offset, align_up(length), length, buffer)
        else:
            super().read(offset, length, buffer)
        self.struct.device_ns += wait_turn(self._throttle, READ, length, began)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        if buffer.is_on_device:
            # cuFile writes whole blocks; the padding is payload, so that no sector repeats.
            whole = align_up(length)
            self._call_cufile(self._file.raw_write, offset, whole, whole, buffer)
        else:
            super().write(offset, length, buffer)
        self.struct.device_ns += wait_turn(self._throttle, WRITE, length, began)

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
