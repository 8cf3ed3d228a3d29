"""Output files: each appears under its name once it is complete, and replaces nothing unasked."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracegen.errors import InputError

_UNFINISHED: Final[set[Path]] = set()  # the partial names that this process has used
_NAME_MAX: Final = 100  # characters of the output's name in a partial name


@dataclass(frozen=True)
class TraceOutput:
    """A trace to write."""

    path: Path  # the file, or with `part_ops` the folder
    force: bool = False  # replace an existing trace
    part_ops: int = 0  # ops per file of a folder; 0 writes one file


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class PartialOutput:
    """An output under a partial name in its own folder, until it is complete."""

    def __init__(self, path: Path) -> None:
        self._target = path
        number = 0
        while (partial := self._name(number)).exists():
            number += 1
        self.path = partial  # free; the caller makes the file or folder
        _UNFINISHED.add(partial)

    def _name(self, number: int) -> Path:
        name = f"{self._target.name[:_NAME_MAX]}.{os.getpid()}-{number}.partial"
        return self._target.with_name(name)

    def publish(self) -> None:
        """Give the complete output its name; what had the name is replaced."""
        if self._target.is_dir():
            remove(self._target)
        self.path.replace(self._target)

    def discard(self) -> None:
        """Remove the partial output, if it exists."""
        remove(self.path)


def remove_unfinished() -> None:
    """Remove the partial outputs of this process.

    Writers remove their own. This is for a signal that comes before a writer has taken charge of
    its output, or while it removes it.
    """
    for path in _UNFINISHED:
        with suppress(OSError):
            remove(path)


def write_failure(path: Path, error: OSError, setting: str = "output") -> InputError:
    """Make the error of an output that cannot be written; `setting` is the parameter that names it."""
    problem = f"cannot write it: {error.strerror or error}"
    return InputError(problem, "choose another place", subject=path, setting=setting)


def _is_name(path: Path) -> bool:
    """Return whether a path names something in UTF-8; the empty path does not, nor do bytes of a shell's variable."""
    return path.name != "" and str(path) == str(path).encode(errors="replace").decode()


def check_output(
    path: Path, *, force: bool, setting: str = "output", is_replaceable: Callable[[Path], bool] = Path.is_file
) -> None:
    """Refuse an output that cannot be written or would replace something unasked.

    With `force` what exists is replaced if it is of the kind to be written. `setting` is the parameter
    that names the output.
    """
    if not _is_name(path):
        raise InputError("not a name for a file", "choose another", subject=repr(str(path)), setting=setting)
    try:
        is_taken = path.exists() or path.is_symlink()  # a link to nothing is somebody's, too
    except OSError as error:  # the name is too long
        raise write_failure(path, error, setting) from None
    problem, remedy = "", "choose another name"
    if not is_taken and not path.absolute().parent.is_dir():
        problem, remedy = f"there is no folder {path.parent}", "make it, or choose another place"
    elif is_taken and not force:
        problem, remedy = "exists already", "choose another name, or pass `force` to replace it"
    elif is_taken and not is_replaceable(path):
        problem = f"{'a folder' if path.is_dir() else 'not a regular file'}, so `force` does not replace it"
    if problem:
        raise InputError(problem, remedy, subject=path, setting=setting)


@contextmanager
def open_output(path: Path, *, force: bool, setting: str = "output") -> Iterator[Any]:
    """Open a binary file for writing, compressed if its name ends in .zst.

    The file appears under its name when the context ends without an exception.

    Raises:
        InputError: as `check_output`, or the file cannot be written.
    """
    check_output(path, force=force, setting=setting)
    partial = PartialOutput(path.resolve())  # a link stays a link
    try:
        with partial.path.open("wb") as raw:
            if path.suffix == ".zst":
                import pyarrow as pa  # noqa: PLC0415 (every command imports this module)

                with pa.CompressedOutputStream(raw, "zstd") as file:
                    yield file
            else:
                yield raw
        partial.publish()
    except OSError as error:
        raise write_failure(path, error, setting) from None
    finally:
        with suppress(OSError):  # another error is being raised already, or the file was never made
            partial.discard()
