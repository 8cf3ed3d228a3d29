"""The formats of an answer, and the file that one is written to."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tracegen.errors import InputError
from views.answer import Answer
from views.exports import render_csv, render_json
from views.text import render_markdown, render_text


def _render_html(answer: Answer) -> str:
    from views.page import render_page  # noqa: PLC0415 (loading the renderer takes half a second)

    return render_page(answer)


FORMATS: Final[dict[str, Callable[[Answer], str]]] = {
    "txt": render_text,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "html": _render_html,
}
"""Renderers by the suffix of their files."""


def choose_format(
    form: str | None,
    output: Path | None,
    kept: Sequence[Path] = (),
    *,
    force: bool,
) -> str:
    """Choose the format, and check that its file can be written, before work starts.

    Args:
        form: one of FORMATS; None to take the suffix of the file, or text for the terminal.
        output: the file; None for the terminal.
        kept: directories in which no file is written, as runs.
        force: whether an existing file may be replaced.

    Raises:
        InputError: the suffix names no format, or the file cannot be written.
    """
    suffix = output.suffix.lower().removeprefix(".") if output else "txt"
    chosen = form or suffix
    if chosen not in FORMATS:
        remedy = f"name a file that ends with {', '.join(f'.{name}' for name in FORMATS)}"
        raise InputError("its suffix names no format", remedy, subject=output, setting="output")
    if output is not None:
        _check_place(output, kept, is_folder=False, force=force)
    return chosen


def check_folder(folder: Path, kept: Sequence[Path], *, force: bool) -> None:
    """Check that charts can be saved in a folder, before work starts.

    Args:
        folder: the folder, which need not exist.
        kept: directories in which no file is written, as runs.
        force: whether files in it may be replaced; other files in it are kept.

    Raises:
        InputError: it is a file, is in a run, or has files, or its parent does not exist.
    """
    _check_place(folder, kept, is_folder=True, force=force)


def _check_place(path: Path, kept: Sequence[Path], *, is_folder: bool, force: bool) -> None:
    """Check that a file, or files of a folder, can be written."""
    what, setting = ("folder", "charts") if is_folder else ("file", "output")
    target = path.resolve()
    run = next((run for run in kept if target.is_relative_to(run.resolve())), None)
    is_taken = any(path.iterdir()) if is_folder and path.is_dir() else os.path.lexists(path)
    if path.is_dir() and not is_folder:
        problem, remedy = "a folder", "name a file in it"
    elif run is not None:
        problem, remedy = f"in the run {run}, which must not change", f"name a {what} elsewhere"
    elif path.exists() and not (path.is_dir() or path.is_file()):
        problem, remedy = "not a regular file", f"name another, or leave out `{setting}`"
    elif is_folder and is_taken and not path.is_dir():
        problem, remedy = "not a folder", "name a new or an empty one"
    elif is_taken and not force:  # a link to nothing is somebody's, too
        problem = "the folder is not empty" if is_folder else "the file exists"
        remedy = "name another, or pass `force`"
    elif not target.parent.is_dir():
        problem, remedy = f"there is no folder {path.parent}", f"create it, or name another {what}"
    else:
        return
    raise InputError(problem, remedy, subject=path, setting=setting)


def write_file(output: Path, content: str) -> None:
    """Write a file completely or not at all.

    Raises:
        InputError: the disk is full, or permission is missing.
    """
    target = output.resolve()  # a link stays a link
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(content)
        partial.replace(target)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError(problem, "name another file", subject=output, setting="output") from None
    finally:
        partial.unlink(missing_ok=True)
