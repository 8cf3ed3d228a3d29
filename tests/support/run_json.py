"""run.json as plain JSON, for tests that compare or change single fields."""

import json
from pathlib import Path
from typing import Any


def run_json(run: Path) -> dict[str, Any]:
    """Return the content of a run directory's run.json, unchecked."""
    content: dict[str, Any] = json.loads((run / "run.json").read_text())
    return content
