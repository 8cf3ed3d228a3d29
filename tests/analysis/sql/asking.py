"""The sql command and its answers."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner, Result

from analysis.cli import main
from tests.support.paths import ROOT

DOC = (ROOT / "docs" / "reading-logs.md").read_text()
SNIPPETS = dict(re.findall(r"## (\w+)\n```python\n(.*?)```", DOC, re.S))
BY_MOVE = """
    select move, count(*) as moves, sum(size_bytes) as bytes, quantile_cont(read_ns, 0.95) / 1e6 as read_p95_ms
    from moves where status = 'ok' and not warmup group by move order by move
"""


def call(place: Path, statement: str, *flags: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["sql", str(place), statement, *map(str, flags)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def ask(place: Path, statement: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(place, statement, "--format", "json").stdout)
    return found


def refusal(place: Path, statement: str, *flags: object) -> str:
    done = call(place, statement, *flags, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("Error: ")


def rows_of(place: Path) -> list[dict[str, Any]]:
    return [row for part in sorted((place / "moves").iterdir()) for row in pq.read_table(part).to_pylist()]
