"""The nvme tier by GPUDirect Storage: hits and stores go between its files and the GPU's memory.

Demotions and promotions go through host memory, as they do without GPUDirect Storage.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Self

from replayer.bindings.compiled import call
from replayer.tiers.base import Buffer, OpenObject, align_up
from replayer.tiers.disk import FileTier, file_name
from replayer.tiers.gpu import tensor_of
from replayer.tiers.request import BlockIO
from tracegen.errors import InputError, missing_package

_new_elsewhere = call("tier_elsewhere")
_free_tier = call("tier_free")


def load_kvikio() -> Any:
    """Import kvikio and check that cuFile can do GPUDirect Storage.

    Raises:
        InputError: kvikio is not installed, or this machine has no GPUDirect Storage.
    """
    try:
        import kvikio  # noqa: PLC0415 (an extra)
        import kvikio.cufile_driver  # noqa: PLC0415

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

    def __init__(
        self,
        parent: Path,
        run: str,
        io: BlockIO,
        *,
        keep: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._kvikio = load_kvikio()
        self._elsewhere = int(_new_elsewhere())
        super().__init__(parent, run, io, keep=keep, say=say)

    @property
    def engine_handle(self) -> int:
        return self._elsewhere

    def close(self) -> None:
        if self.handle is not None:
            _free_tier(self._elsewhere)
        super().close()

    def create(self, key: int, size: int) -> OpenObject:
        return self._open_cufile(super().create(key, size), key, "r+")

    def open(self, key: int, size: int) -> OpenObject:
        return self._open_cufile(super().open(key, size), key, "r")

    def _open_cufile(self, plain: OpenObject, key: int, flags: str) -> OpenObject:
        # By the folder's descriptor, as the kernel's calls do: the folder may have been renamed.
        path = Path(f"/proc/self/fd/{self._cache.descriptor}") / file_name(key)
        try:
            file = self._kvikio.CuFile(path, flags)
        except RuntimeError as error:  # kvikio's form of cuFile's errors
            plain.__exit__()
            raise OSError(errno.EIO, str(error)) from None
        return _GdsObject(plain, file)


class _GdsObject:
    """A file, open twice: for cuFile, and for the kernel."""

    def __init__(self, plain: OpenObject, file: Any) -> None:
        self._plain = plain
        self._file = file
        self._cufile_ns = 0

    @property
    def device_ns(self) -> int:
        """Time inside cuFile and inside system calls."""
        return self._cufile_ns + self._plain.device_ns

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        if buffer.is_on_device:
            self._transfer(self._file.raw_read, offset, align_up(length), length, buffer)
        else:
            self._plain.read(offset, length, buffer)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        if buffer.is_on_device:
            whole = align_up(length)
            self._transfer(self._file.raw_write, offset, whole, whole, buffer)
        else:
            self._plain.write(offset, length, buffer)

    def _transfer(self, function: Callable[..., int], offset: int, size: int, least: int, buffer: Buffer) -> None:
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
                reason = f"short transfer by cuFile: ends at byte {offset + done}"
                raise OSError(errno.EIO, reason)
            done += count
        self._cufile_ns += perf_counter_ns() - began

    def finish(self) -> None:
        self._plain.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._plain.__exit__(*exception)
