"""Parts of run.json as plain JSON, and a whole run.json as it is on the disk."""

import json
from typing import Any, Final

import msgspec

from replayer.record.conditions import Conditions, list_conditions
from replayer.record.run_info import RanksInfo, RunInfo

RARE: Final = (
    "windowed_bytes_per_token",
    "attention_window",
    "state_bytes_per_object",
    "gpu",
    "rules",
)


def to_json(info: RunInfo | RanksInfo) -> dict[str, Any]:
    """Convert a run.json to what JSON has; fields are in the order of the type."""
    content: dict[str, Any] = json.loads(msgspec.json.encode(info))
    if isinstance(info, RunInfo):
        content["conditions"] = to_plain(info.conditions)
        if info.prediction is None:  # measured runs are written as before there were predictions
            del content["prediction"]
    return content


def encode(info: RunInfo | RanksInfo) -> bytes:
    """Encode a run.json as it is on the disk: UTF-8, indented by one space."""
    return json.dumps(to_json(info), indent=1).encode()


def to_plain(value: msgspec.Struct) -> dict[str, Any]:
    """Convert a part of run.json to what JSON has: dicts, lists, numbers, text and None.

    The fields that only some models, arrangements and machines have (RARE) are left out if they are None.
    """
    plain: dict[str, Any] = json.loads(msgspec.json.encode(value))
    if isinstance(value, Conditions):
        plain = list_conditions(plain)
    return {name: field for name, field in plain.items() if field is not None or name not in RARE}
