"""Names of drives, models and causes of errors, worded alike by replayer and analysis."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from replayer.record.options import DurationOrigin
from replayer.record.run_parts import Storage

SAME_CACHE: Final = re.compile(r"meta|instruct|chat|hf|it|base|v0\.\d")
"""Parts of model names that say nothing about the size of the KV cache."""


def plain_model(name: str) -> str:
    """Reduce a model's name to the part that all spellings of models with an equal KV cache share.

    llama3.1-8b and meta-llama/Llama-3.1-8B-Instruct are llama318b.
    """
    words = name.lower().rstrip("/").rsplit("/", 1)[-1].replace("_", "-").split("-")
    return "".join(word for word in words if not SAME_CACHE.fullmatch(word)).replace(".", "")


def drive(storage: Storage) -> str:
    """Describe a drive by its file system, mount point, device and model, as far as run.json names them."""
    model = f" ({storage.device_model})" if storage.device_model else ""
    is_mounted = storage.filesystem and storage.mount_point
    mount = f"{storage.filesystem} at {storage.mount_point}, " if is_mounted else ""
    return f"{mount}{storage.device}{model}"


def describe_cut(duration_s: float, origin: DurationOrigin | None) -> str:
    """Describe where a run is cut, and by what as far as that is known."""
    by = {"recipe": " by the trace's recipe", "user": " by the duration asked for"}
    return f"cut at {duration_s:,.4g} s{by.get(origin or '', '')}"


def causes_of(errors: Iterable[str]) -> Counter[str]:
    """Count the causes in the log's column `error`, without file names, numbers and places."""
    return Counter(_NUMBER.sub("N", _WHERE.sub("", text)) for text in errors)


_WHERE: Final = re.compile(r"^\w+: (\[Errno \d+\] )?|: .*$", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")


def commonest(causes: Mapping[str, int]) -> str:
    """The commonest cause, and how many there are beside it, in words."""
    cause, count = max(causes.items(), key=lambda one: one[1])
    others = f", and {sum(causes.values()) - count:,} for other causes" if len(causes) > 1 else ""
    return f"{count:,} × {cause}{others}"
