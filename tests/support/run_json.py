"""run.json, and other files, as plain JSON, for tests that compare, change or make up fields."""

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


def put(content: Any, name: str, value: Any) -> None:
    """Set a field of parsed JSON by its dotted name, in which numbers are places in lists; ...: leave it out."""
    *above, last = name.split(".")
    for step in above:
        content = content[int(step) if isinstance(content, list) else step]
    content[last] = value
    if value is ...:
        del content[last]


def edit(path: Path, values: dict[str, Any]) -> None:
    """Set fields of a JSON file, by their dotted names."""
    content = json.loads(path.read_text())
    for name, value in values.items():
        put(content, name, value)
    path.write_text(json.dumps(content))


def save_above(run: Path, ranks: int, **values: Any) -> None:
    """Write the run.json above those of the ranks."""
    save_run_json(run, {"ranks": ranks, "status": "failed"} | values)


def read_files(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of all that is in a folder and below; None: a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
