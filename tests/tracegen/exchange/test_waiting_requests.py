"""Requests out of order wait on disk: the trace is the same, and little of it is in memory at a time."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.imports import imported
from tracegen.errors import InputError
from tracegen.exchange import importer as waiting

# Pinned for ever: the folder of `write_conversations` as imported by default.
GOLDEN = "a3b114f52fe527bda63e9c83cea42c79e436653466eaaf7318e8f5de2d95482f"


def write_conversations(folder: Path, count: int = 12) -> Path:
    """Write conversations that overlap in time, with sub-agents and with ids of both scopes."""
    folder.mkdir()
    for number in range(count):
        calls: list[dict[str, Any]] = [
            {"t": (7 * number) % 5 + k * 1.25, "type": "n", "in": 64 * k + 3, "out": 9, "hash_ids": list(range(k))}
            for k in range(1, 30)
        ]
        agent = [{"t": k * 0.5, "type": "n", "in": 130, "out": 5, "hash_ids": [0, 100 + k]} for k in range(4)]
        calls.insert(5, {"t": 12, "type": "subagent", "requests": agent})
        text = {"id": f"c{number}", "block_size": 64, "requests": calls}
        text["hash_id_scope"] = "global" if number % 3 == 0 else "local"
        (folder / f"{number:02}.json").write_text(json.dumps(text))
    return folder


def test_conversations_out_of_order_make_the_same_trace_in_any_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, prints = write_conversations(tmp_path / "weka"), set()
    for size in (1, 100, waiting.OBJECTS_PER_BATCH):
        monkeypatch.setattr(waiting, "OBJECTS_PER_BATCH", size)
        prints.add(imported("weka", folder, tmp_path / "t.parquet", jitter_s=2).metadata.fingerprint)
    assert prints == {GOLDEN}


def test_a_bad_conversation_leaves_no_file_behind(tmp_path: Path) -> None:
    folder = write_conversations(tmp_path / "weka", 3)
    (folder / "99.json").write_text('{"requests": [{"t": 1}]}')
    with pytest.raises(InputError, match=r"99\.json, line 1: in: missing"):
        imported("weka", folder, tmp_path / "t.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["weka"]
