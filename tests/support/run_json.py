"""run.json as plain JSON, for tests that compare, change or make up its fields."""

import json
from pathlib import Path
from typing import Any

from replayer.schema import RUN_VERSION


def run_json(run: Path) -> dict[str, Any]:
    """Return the content of a run directory's run.json, unchecked."""
    content: dict[str, Any] = json.loads((run / "run.json").read_text())
    return content


def save_run_json(run: Path, content: dict[str, Any]) -> None:
    """Write a run directory's run.json, unchecked; the content need not have `run_version`."""
    (run / "run.json").write_text(json.dumps({"run_version": RUN_VERSION} | content, indent=1))
