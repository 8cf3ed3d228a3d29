"""Tables of a TOML file, read key by key: every wrong value is refused with its place."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from tracegen.errors import InputError, quote_value

_LARGEST_WHOLE: Final = 1e15
_LARGEST: Final = 1e9
_SMALLEST: Final = 1e-6
"""Limits of numbers. The clock counts to 10^18 ns: times of sensible objects stay below it."""


class TomlTable:
    """One table of a file, which notes the keys that were read.

    Args:
        file: what messages call the file.
        place: of the table: "" for the top, nvme.read for [nvme.read].
        values: of the table.
        setting: that named the file.
    """

    def __init__(self, file: str, place: str, values: Mapping[str, Any], setting: str) -> None:
        self._file = file
        self._place = place
        self._values = values
        self._setting = setting
        self._read = set[str]()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def refuse(self, key: str, problem: str, remedy: str) -> InputError:
        """Make the error of a key; the problem continues "`key` …"."""
        table = f"[{self._place}] " if self._place else ""
        return InputError(
            f"{table}`{key}` {problem}",
            remedy,
            subject=self._file,
            setting=self._setting,
        )

    def names(self) -> tuple[str, ...]:
        """Return all keys."""
        return tuple(self._values)

    def end(self) -> None:
        """Refuse keys that nobody read.

        Raises:
            InputError: there is one.
        """
        unknown = [key for key in self._values if key not in self._read]
        if unknown:
            near = difflib.get_close_matches(unknown[0], sorted(self._read), n=1)
            known = ", ".join(sorted(self._read))
            remedy = f"did you mean {near[0]}?" if near else f"the keys are {known}"
            raise self.refuse(unknown[0], "is unknown", remedy)

    def value(self, key: str, wanted: str) -> Any:
        """Return the value of a key that must be there.

        Raises:
            InputError: it is missing.
        """
        self._read.add(key)
        if key not in self._values:
            raise self.refuse(key, "is missing", f"write {wanted}")
        return self._values[key]

    def table(self, key: str) -> "TomlTable":
        """Return the table of a key.

        Raises:
            InputError: it is missing, or no table.
        """
        place = f"{self._place}.{key}" if self._place else key
        values = self.value(key, f"a table [{place}]")
        if not isinstance(values, dict):
            raise self.refuse(key, f"is {quote_value(values)}, not a table", f"write [{place}]")
        return TomlTable(self._file, place, values, self._setting)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text.

        Raises:
            InputError: it is missing without a default, or no text.
        """
        if default is not None and key not in self._values:
            self._read.add(key)
            return default
        value = self.value(key, "a text in quotes")
        if not isinstance(value, str):
            raise self.refuse(key, f"is {quote_value(value)}, not a text", "put it in quotes")
        return value

    def word(self, key: str, words: tuple[str, ...], default: str | None = None) -> Any:
        """Return one of several words.

        Raises:
            InputError: it is another word.
        """
        value = self.text(key, default)
        if value not in words:
            names = f"{', '.join(words[:-1])} or {words[-1]}"
            raise self.refuse(key, f"is {quote_value(value)}, which is unknown", f"write {names}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false.

        Raises:
            InputError: it is neither.
        """
        value = self.value(key, "true or false")
        if not isinstance(value, bool):
            raise self.refuse(key, f"is {quote_value(value)}", "write true or false")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number from 1.

        Raises:
            InputError: it is missing without a default, or another value.
        """
        if default is not None and key not in self._values:
            self._read.add(key)
            return default
        wanted = "a whole number from 1"
        value = self.value(key, wanted)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _LARGEST_WHOLE:
            raise self.refuse(key, f"is {quote_value(value)}", f"write {wanted}")
        return value

    def number(self, key: str, *, has_zero: bool = False, default: float | None = None) -> float:
        """Return a number, positive or also 0.

        Raises:
            InputError: it is missing without a default, or another value.
        """
        if default is not None and key not in self._values:
            self._read.add(key)
            return default
        return self._check(key, self.value(key, _describe(has_zero)), has_zero=has_zero)

    def numbers(self, key: str, count: int | None, *, has_zero: bool = False) -> tuple[float, ...]:
        """Return a list of numbers.

        Args:
            key: of the list.
            count: numbers that it must have; None: any number of them.
            has_zero: whether 0 is allowed.

        Raises:
            InputError: it is missing, or another value.
        """
        value = self.value(key, f"a list, each {_describe(has_zero)}")
        if not isinstance(value, list):
            raise self.refuse(key, f"is {quote_value(value)}, not a list", "write it in brackets")
        self._check_length(key, value, count)
        return tuple(self._check(key, one, has_zero=has_zero) for one in value)

    def lists(self, key: str, count: int) -> tuple[tuple[float, ...], ...]:
        """Return a list of lists of numbers that are 0 or more.

        Args:
            key: of the list.
            count: lists that it must have.

        Raises:
            InputError: it is missing, or another value.
        """
        value = self.value(key, "a list of lists")
        if not isinstance(value, list) or not all(isinstance(one, list) for one in value):
            raise self.refuse(key, "is not a list of lists", "write one list for each point")
        self._check_length(key, value, count)
        return tuple(tuple(self._check(key, one, has_zero=True) for one in row) for row in value)

    def _check_length(self, key: str, value: list[Any], count: int | None) -> None:
        if count is not None and len(value) != count:
            problem = f"has {len(value)} values, `in_flight` has {count}"
            raise self.refuse(key, problem, "write one for each point")

    def _check(self, key: str, value: object, *, has_zero: bool) -> float:
        """Return a value as a float, if it is a number in its range."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            is_zero = has_zero and value == 0
            if is_zero or _SMALLEST <= value < _LARGEST:  # neither is true of nan
                return float(value)
        raise self.refuse(key, f"has {quote_value(value)}", f"write {_describe(has_zero)}")


def _describe(has_zero: bool) -> str:
    return f"{'0, or ' if has_zero else ''}a number from 10^-6 to below 10^9"
