"""Files of other labs' formats, written and read."""

import json
from pathlib import Path
from typing import Any

from tracegen.formats import FORMATS
from tracegen.formats.rows import Call, Rows

S, MS = 10**9, 10**6


def read(format_: str, path: Path, content: str | bytes | None = None, **how: Any) -> list[Call]:
    return read_rows(format_, path, content, **how)[0]


def read_rows(
    format_: str, path: Path, content: str | bytes | None = None, *, skip_bad: bool = False, columns: str = ""
) -> tuple[list[Call], Rows]:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    columns = columns or FORMATS[format_].columns or COLUMNS.get(format_, "")
    rows = Rows(path, skip_bad=skip_bad, columns=columns)
    return list(FORMATS[format_].read(rows)), rows


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def turn(t: float, *ids: int, tokens: int = -1, out: int = 1) -> dict[str, Any]:
    times = {"api_time": 1.0, "think_time": 0.0}
    return {"t": t, "type": "n", "model": "m", "in": tokens if tokens >= 0 else 64 * len(ids), "out": out} | {
        "hash_ids": ids,
        **times,
    }


def conversation(*requests: dict[str, Any], **changes: Any) -> str:
    head = {
        "id": "c",
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 9,
        "system_tokens": 1,
    }
    return json.dumps(head | {"requests": requests} | changes, indent=1)


def agent(t: float, *requests: dict[str, Any]) -> dict[str, Any]:
    return {"t": t, "type": "subagent", "agent_id": "a", "requests": requests}


GOOD = {
    "mooncake": {"timestamp": 1, "input_length": 513, "output_length": 1, "hash_ids": [0, 1]},
    "bailian": {"chat_id": 1, "parent_chat_id": -1, "timestamp": 1, "input_length": 17, "output_length": 1}
    | {"type": "text", "turn": 1, "hash_ids": [0, 1]},
    "jsonl": {"timestamp": 1, "input_length": 513, "output_length": 1},
    "kvcache-simulator": {"block_size": 64, "hash_ids": [1, 2], "input_length": 128, "output_length": 1},
}
COLUMNS = {"jsonl": "time=timestamp,prompt=input_length,answer=output_length,session=session_id"}
HEADERS = {
    "csv": "time,prompt,answer,session",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "mlcommons": "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase",
}
LINES = {
    "csv": "5,472,18,u7",
    "burstgpt": "5,ChatGPT,472,18,490,Conversation log",
    "azure": "2023-11-16 18:15:46.6805901,374,44",
    "mlcommons": "1740553426.194021,Write,131072,Tier-0,a,Prefill",
}
