"""Errors as data, and the words that messages share. Everyone may import it; it prints nothing."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_SETTING: Final = re.compile(r"`([a-z][a-z0-9_]*)(?:=([^`\s]+))?`")


class ToolError(Exception):
    """An error that the user can do something about.

    Args:
        problem: what is wrong, with the value; a clause without a full stop. Other settings stand in it by their
            Python names in backquotes: `cpu_mem_gb`, or `direct=auto`.
        remedy: what the user can do; an imperative clause, with settings as in `problem`.
        subject: the file, row or value that has the problem.
        setting: the parameter that has the problem, by its Python name; commands show its flag.
    """

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "", *, subject: object = None, setting: str | None = None) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy
        self.subject = subject
        self.setting = setting

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, flag_of: Callable[[str], str | None] = lambda _setting: None) -> str:
        """Put the error in one sentence.

        Args:
            flag_of: gives the flag of a setting, or None to keep the setting's name.
        """

        def replace(match: re.Match[str]) -> str:
            flag = flag_of(match[1])
            if flag is None:
                return match[0]
            return f"{flag} {match[2]}" if match[2] else flag

        name = None if self.setting is None else flag_of(self.setting) or self.setting
        where = " ".join(str(part) for part in (name, self.subject) if part is not None)
        clauses = "; ".join(clause for clause in (self.problem, self.remedy) if clause)
        text = _SETTING.sub(replace, f"{where}: {clauses}" if where else clauses)
        return text if text.endswith((".", "?")) else f"{text}."


class InputError(ToolError):
    """Bad usage or bad input; commands exit with code 2."""

    exit_code = 2


def missing_package(
    feature: str, package: str, extra: str, *, reason: str = "not installed", alternative: str = ""
) -> InputError:
    """Make the error of a feature whose package is missing.

    Args:
        feature: what needs the package.
        package: its name for `pip install`.
        extra: the extra of this project that brings it.
        reason: why it cannot be used.
        alternative: what else the user may do.
    """
    remedy = f"run `make setup EXTRAS={extra}` in a checkout, else `pip install {package}`"
    return InputError(f"{feature} needs {package} ({reason})", ", ".join(filter(None, (remedy, alternative))))


def check_is_file(path: Path, wanted: str) -> None:
    """Refuse a path that exists and is no regular file: reading a pipe or a device might never end.

    Args:
        path: may be missing.
        wanted: what to name instead, e.g. "a trace".

    Raises:
        InputError: it is a folder, pipe or device.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or device"
        raise InputError(f"{path} is {kind}, not a file", f"name {wanted}")


def escape_controls(text: str) -> str:
    """Escape the control characters of a text, except newline and tab: a terminal would obey them."""
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()  # file names may hold any byte


def quote_value(value: object) -> str:
    """Quote a value for a message: escaped, and at most 60 characters long."""
    try:
        text = repr(value[:99] if isinstance(value, str) else value)
    except ValueError:  # 0xff… of more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: 1 trial, 3 trials, 1,000 trials."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
