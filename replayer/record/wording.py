"""Names of drives, models and causes of errors, worded alike by replayer and analysis."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

SAME_CACHE: Final = re.compile(r"meta|instruct|chat|hf|it|base|v0\.\d")
"""Parts of model names that say nothing about the size of the KV cache."""


def plain_model(name: str) -> str:
    """What all spellings of a model's name share, as far as its KV cache goes.

    llama3.1-8b and meta-llama/Llama-3.1-8B-Instruct are llama318b.
    """
    words = name.lower().rstrip("/").rsplit("/", 1)[-1].replace("_", "-").split("-")
    return "".join(word for word in words if not SAME_CACHE.fullmatch(word)).replace(".", "")


def drive(storage: Mapping[str, Any]) -> str:
    """File system, mount point, device and its model, as far as they are known, of run.json's machine.storage."""
    model = f" ({storage['device_model']})" if storage.get("device_model") else ""
    kind, point = storage.get("filesystem"), storage.get("mount_point")
    return f"{f'{kind} at {point}, ' if kind and point else ''}{storage.get('device')}{model}"


def causes_of(errors: Iterable[str]) -> Counter[str]:
    """How often each cause stands in the log's column `error`: without file names, numbers and where it happened."""
    return Counter(_NUMBER.sub("N", _WHERE.sub("", text)) for text in errors)


_WHERE: Final = re.compile(r"^\w+: (\[Errno \d+\] )?|: .*$", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")


def commonest(causes: Mapping[str, int]) -> str:
    """The commonest cause, and how many there are beside it, in words."""
    cause, count = max(causes.items(), key=lambda one: one[1])
    others = f", and {sum(causes.values()) - count:,} for other causes" if len(causes) > 1 else ""
    return f"{count:,} × {cause}{others}"
