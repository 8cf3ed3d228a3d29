"""Imports of other labs' traces, and excerpts of those."""

import json
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.traces import joined
from tracegen.exchange.convert import import_trace
from tracegen.exchange.options import ImportOptions
from tracegen.outputs import TraceOutput
from tracegen.schema import Columns, Trace

EXCERPT = ROOT / "traces" / "mooncake_excerpt.jsonl"


def imported(format_: str, path: Path | list[Path], to: Path, **options: Any) -> Trace:
    paths = path if isinstance(path, list) else [path]
    import_trace(format_, paths, ImportOptions(**options), TraceOutput(to, force=True))
    trace = Trace(to)
    assert [str(problem) for problem in trace.violations().problems] == []
    return trace


def ops(trace: Trace) -> Columns:
    return joined(list(trace.batches()))


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
