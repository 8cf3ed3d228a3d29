"""Errors as data, and functions that phrase messages.

All packages may import it. It prints nothing.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

# XML, and so a page, can hold neither of the last two.
_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0xFFFE, 0xFFFF) if chr(code) not in "\n\t"
}
_SETTING: Final = re.compile(r"`([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:=([^`\s]+))?`")


class ToolError(Exception):
    """An error that the user can do something about.

    Args:
        problem: the problem, with the value; a clause without a full stop. It names other settings
            by their Python names in backquotes: `cpu_mem_gb`, or `direct=auto`.
        remedy: the remedy; an imperative clause, with settings as in `problem`.
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
        """Phrase the error as one sentence, with the flags of settings that have one."""

        def replace(match: re.Match[str]) -> str:
            flag = flag_of(match[1])
            if flag is None:
                return match[0]
            return _join(flag, match[2]) if match[2] else flag

        name = None if self.setting is None else flag_of(self.setting) or self.setting
        subject = None if self.subject is None else str(self.subject)
        place = _join(name, subject) if name and subject else name or subject
        clauses = "; ".join(filter(None, (self.problem, self.remedy)))
        text = _SETTING.sub(replace, f"{place}: {clauses}" if place else clauses)
        return text if text.endswith((".", "?")) else f"{text}."


def _join(flag: str, value: str) -> str:
    """Join a flag with its value: --duration 9, or --set headroom=0.9."""
    return f"{flag}={value}" if flag.startswith("--set ") else f"{flag} {value}"


class InputError(ToolError):
    """Bad usage or bad input; commands exit with code 2."""

    exit_code = 2


def missing_package(
    feature: str, package: str, extra: str, *, reason: str = "not installed", alternative: str = ""
) -> InputError:
    """Make the error of a feature whose package is missing; `extra` of this project installs it."""
    remedy = f"run `make setup EXTRAS={extra}` in a checkout, else `pip install {package}`"
    return InputError(f"{feature} needs {package} ({reason})", ", ".join(filter(None, (remedy, alternative))))


def check_is_file(path: Path, wanted: str) -> None:
    """Refuse a path that is a folder, or a pipe or device, whose reading might never end.

    `wanted` is what to name instead, for example "a trace".
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or device"
        raise InputError(f"{path} is {kind}, not a file", f"name {wanted}")


def escape_controls(text: str) -> str:
    """Escape control characters, which a terminal would obey, except newline and tab."""
    # File names may hold any byte.
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()


def quote_value(value: object) -> str:
    """Quote a value for a message: escaped, and at most 60 characters long."""
    try:
        text = repr(value[:99] if isinstance(value, str) else value)
    except ValueError:  # 0xff… of more digits than Python prints
        return "a number of thousands of digits"
    except RecursionError:  # what can be parsed may be nested too deep to be printed
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: 1 trial, 3 trials, 1,000 trials."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
