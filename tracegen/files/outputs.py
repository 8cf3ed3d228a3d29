"""Files that are written: none is replaced unasked, none appears under its name before it is whole."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tracegen.errors import InputError

_MINE: Final[set[Path]] = set()  # the private names of this process
_NAME_MAX: Final = 100


def private_name(path: Path) -> Path:
    """A name beside `path` that nobody has, for what is not whole yet."""
    number = 0
    while (found := path.with_name(f"{path.name[:_NAME_MAX]}.{os.getpid()}-{number}.partial")).exists():
        number += 1
    _MINE.add(found)
    return found


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_unfinished() -> None:
    """Remove what this process has begun under private names and not finished.

    Whoever begins a file removes it; this is for a signal that comes just before that is sure, or while it is done.
    """
    for path in _MINE:
        with suppress(OSError):
            remove(path)


def leftovers(path: Path) -> list[Path]:
    """What processes that were killed have left beside an output: private names whose process does not run here."""
    name = re.compile(re.escape(path.name[:_NAME_MAX]) + r"\.(\d{1,9})-\d+\.partial", re.ASCII)
    found = [(one, name.fullmatch(one.name)) for one in path.absolute().parent.iterdir()]
    return sorted(one for one, match in found if match and not Path(f"/proc/{match[1]}").exists())


def unwritable(path: Path, error: OSError, flag: str = "-o") -> InputError:
    """What to raise where writing to `path` has failed."""
    return InputError(f"cannot write {path}: {error.strerror or error}; choose another place with {flag}.")


def check_free(
    path: Path, *, force: bool, flag: str = "-o", replaceable: Callable[[Path], bool] = Path.is_file
) -> None:
    """Refuse a name that cannot be written to, or must not.

    Args:
        path: the output.
        force: what is there may be replaced, if it is `replaceable`.
        flag: gives another name, for the message.
        replaceable: whether what is there is of the kind that would be written.

    Raises:
        InputError: says why, and what to do.
    """
    if not path.name or str(path) != str(path).encode(errors="replace").decode():
        raise InputError(f"{str(path)!r} is no name for a file; give another with {flag}.")
    try:
        if not (path.exists() or path.is_symlink()):
            return
    except OSError as error:  # the name is too long
        raise unwritable(path, error, flag) from None
    if not force:
        raise InputError(f"{path} exists already; name another file with {flag} or pass --force to replace it.")
    if not replaceable(path):
        what = "a folder" if path.is_dir() else "no file"
        raise InputError(f"{path} is {what}, and --force replaces only its like; name another place with {flag}.")


@contextmanager
def opened(path: Path, *, force: bool, flag: str = "-o") -> Iterator[Any]:
    """A binary file to write, compressed where its name ends in .zst; it appears under its name once it is whole.

    Raises:
        InputError: as `check_free`, or it cannot be written.
    """
    check_free(path, force=force, flag=flag)
    partial = private_name(path)
    try:
        with pa.OSFile(str(partial), "wb") as raw:
            if path.suffix == ".zst":
                with pa.CompressedOutputStream(raw, "zstd") as file:
                    yield file
            else:
                yield raw
        partial.replace(path)
    except OSError as error:
        raise unwritable(path, error, flag) from None
    finally:
        with suppress(OSError):  # nothing was made, or what made it fail is said already
            partial.unlink()
