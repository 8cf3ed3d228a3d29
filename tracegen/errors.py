"""Input from outside: what is refused, in which words."""

from pathlib import Path
from typing import Final

import click

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Text for a terminal, which obeys none of it: control characters but newline and tab are shown by number."""
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()  # file names may hold any byte


class InputError(click.ClickException):
    """Bad usage or bad input: one sentence that names the file, row or flag and the remedy; exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        """The sentence as a terminal may show it."""
        return printable(self.message)


def check_is_file(path: Path, wanted: str) -> None:
    """Refuse what is there but is no file: a pipe or a device might never end.

    Args:
        path: may be missing.
        wanted: what to name instead, e.g. "a trace".

    Raises:
        InputError: it is something else.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'a pipe or device'}, not a file; name {wanted}.")


def shown(value: object) -> str:
    """A value as messages quote it: escaped, and short."""
    try:
        text = repr(value[:99] if isinstance(value, str) else value)
    except ValueError:  # 0xff… of more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}…"
