"""The nvme tier by GPUDirect Storage: hits are read into the GPU's memory, stores are written out of it, by the device.

What else moves to or from the tier (demotions, promotions) goes through host memory as it does without.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Self

from replayer.bindings.compiled import call
from replayer.tiers.base import Buffer, Landing, Object, aligned
from replayer.tiers.gpu import tensor_of
from replayer.tiers.nvme import BlockIO, FileTier, name_of
from tracegen.errors import InputError, missing_package

_elsewhere, _free_tier, _pass = call("tier_elsewhere"), call("tier_free"), call("tier_pass")


def kvikio_with_gds() -> Any:
    """kvikio, where cuFile can do GPUDirect Storage.

    Raises:
        InputError: it is not installed, or it cannot.
    """
    try:
        import kvikio  # noqa: PLC0415 (an extra)
        import kvikio.cufile_driver  # noqa: PLC0415

        available = kvikio.cufile_driver.properties.is_gds_available
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise missing_package("--gds", "kvikio-cu12", "gds", reason=reason, alternative="or leave it out") from None
    if not available:
        raise InputError("--gds needs cuFile with GPUDirect Storage, which this machine lacks; leave it out.")
    return kvikio


class GdsTier(FileTier):
    """Files that cuFile reads and writes; otherwise as FileTier."""

    def __init__(self, parent: Path, run: str, io: BlockIO, *, keep: bool = False) -> None:
        self._kvikio, self._elsewhere, self._throttled = kvikio_with_gds(), int(_elsewhere()), False
        super().__init__(parent, run, io, keep=keep)

    @property
    def engine_handle(self) -> int:
        return self._elsewhere

    def throttle(self, mib_s: float, latency_us: float, write_mib_s: float | None = None) -> None:
        super().throttle(mib_s, latency_us, write_mib_s)
        self._throttled = True

    def close(self) -> None:
        if self.handle is not None:
            _free_tier(self._elsewhere)
        super().close()

    def create(self, key: int, size: int) -> Object:
        return self._with_cufile(super().create(key, size), key, "r+")

    def open(self, key: int, size: int) -> Object:
        return self._with_cufile(super().open(key, size), key, "r")

    def _with_cufile(self, plain: Object, key: int, flags: str) -> Object:
        try:
            # By the folder's descriptor, as the kernel's own calls: its name may have come to mean another folder.
            file = self._kvikio.CuFile(Path(f"/proc/self/fd/{self._cache.descriptor}") / name_of(key), flags)
        except RuntimeError as error:  # what kvikio makes of cuFile's errors
            plain.__exit__()
            raise OSError(errno.EIO, str(error)) from None
        return _GdsObject(plain, file, self.handle if self._throttled else None)


class _GdsObject:
    """A file, open twice: for cuFile, and for the kernel."""

    def __init__(self, plain: Object, file: Any, throttled: int | None) -> None:
        self._plain, self._file, self._cufile_ns, self._throttled = plain, file, 0, throttled

    @property
    def device_ns(self) -> int:
        """Inside cuFile and inside system calls."""
        return self._cufile_ns + self._plain.device_ns

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        if isinstance(buffer, Landing):
            self._transfer(self._file.raw_read, offset, aligned(length), length, buffer, side=0)
        else:
            self._plain.read(offset, length, buffer)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        if isinstance(buffer, Landing):
            self._transfer(self._file.raw_write, offset, aligned(length), aligned(length), buffer, side=1)
        else:
            self._plain.write(offset, length, buffer)

    def _transfer(
        self, call: Callable[..., int], offset: int, size: int, least: int, buffer: Buffer, *, side: int
    ) -> None:
        """Call cuFile till at least so many bytes are moved."""
        began, done = perf_counter_ns(), 0
        while done < least:
            try:
                count = call(tensor_of(buffer)[done:size], size - done, offset + done)
            except RuntimeError as error:
                raise OSError(errno.EIO, str(error)) from None
            if count <= 0:
                raise OSError(errno.EIO, f"short transfer by cuFile: ends at byte {offset + done}")
            done += count
        if self._throttled is not None:
            _pass(self._throttled, side, least, began)
        self._cufile_ns += perf_counter_ns() - began

    def finish(self) -> None:
        self._plain.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._plain.__exit__(*exception)
