"""Run a notebook without Jupyter: `python -m tests.support.notebooks` renews what docs/first-look.ipynb shows.

A line that begins with `!` is a command. What it prints on standard error is left out.
"""

import ast
import base64
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.command_line import here
from tests.support.pages import words
from tests.support.paths import ROOT

NOTEBOOK = ROOT / "docs" / "first-look.ipynb"


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    return found


def programs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(notebook: dict[str, Any], place: Path, *, instead: dict[str, str] | None = None) -> dict[str, Any]:
    """Run all cells in a folder, and keep what each shows; return the names that they define."""
    names: dict[str, Any] = {}
    for count, cell in enumerate(programs(notebook), 1):
        source = "".join(cell["source"])
        for was, new in (instead or {}).items():
            source = source.replace(was, new)
        with contextlib.chdir(place):
            cell["outputs"] = command(source, place) if source.startswith("!") else program(source, names, count)
        cell["execution_count"] = count
    return names


def command(source: str, place: Path) -> list[dict[str, Any]]:
    printed = ""
    for line in source.splitlines():
        tool, *arguments = words(line.removeprefix("!"), place)
        if tool == "mkdir":
            (place / arguments[-1]).mkdir(exist_ok=True)
            continue
        done = here(tool, *arguments, cwd=place)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed += done.stdout
    return [stream(printed)]


def program(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(last, "cell", "eval"), names)
    shown = [stream(printed.getvalue())] if printed.getvalue() else []
    if value is None:
        return shown
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "mark_point"):  # a chart
        data = {"image/png": base64.b64encode(shrink(value._repr_mimebundle_()[0]["image/png"])).decode()}
    return [*shown, {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}]


def shrink(picture: bytes) -> bytes:
    """A quarter of the bytes: 64 colours are enough for a chart."""
    smaller = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


if __name__ == "__main__":
    renewed = read()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        execute(renewed, Path(folder))
    NOTEBOOK.write_text(json.dumps(renewed, indent=1, ensure_ascii=False) + "\n")
