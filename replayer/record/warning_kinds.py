"""The kinds of the replayer's warnings, those of releases that wrote none by their words."""

from typing import Final

from replayer.record import run_info
from replayer.record.options import WarningKind
from replayer.record.run_info import RunInfo

_WORDS: Final[dict[str, WarningKind]] = {
    "the page cache": "page cache",
    "no block device counts": "unchecked reads",
    "is on the root file system": "root file system",
    "null layout": "emulated tier",
    "emulated in host memory": "emulated tier",
    "tier is throttled": "throttled tier",
    "verification is off": "verification off",
}
"""Words in the warnings of releases that wrote no kind, and their kinds."""


def kind_of_text(text: str) -> WarningKind:
    """Return the kind of a warning of a release that wrote no kind."""
    if text.startswith("a cache served reads"):
        return "page cache served reads"
    return next((kind for words, kind in _WORDS.items() if words in text), "note")


def typed_warnings(info: RunInfo) -> tuple[run_info.Warning, ...]:
    """Return the warnings of a run, each with its kind."""
    return tuple(
        run_info.Warning(kind=kind_of_text(warning), text=warning) if isinstance(warning, str) else warning
        for warning in info.warnings
    )
