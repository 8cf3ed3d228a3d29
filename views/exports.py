"""An answer for programs: JSON and CSV."""

import io
import json
from typing import Final

import polars as pl
from msgspec import to_builtins

from views.answer import Answer, Table

_FORMULA: Final = r"^[=+\-@\t\r]"
_CONTROL: Final = r"[^\P{Cc}\n\t]"


def render_json(answer: Answer) -> str:
    """Return an answer as JSON: figures, tables and doubts as they are, and `data` beside them."""
    content: dict[str, object] = {
        "title": answer.title,
        "subject": answer.subject,
        "state": answer.state,
        "sentence": answer.sentence,
        "figures": to_builtins(answer.figures),
        "tables": [_convert_table(table) for table in answer.tables if not table.is_folded],
        "doubts": to_builtins(answer.doubts),
        "next": answer.next,
    }
    return json.dumps(content | dict(answer.data), indent=1) + "\n"


def _convert_table(table: Table) -> dict[str, object]:
    heads = [column.heading for column in table.columns]
    rows = [dict(zip(heads, row, strict=True)) for row in table.rows]
    return {"name": table.name, "title": table.title, "rows": rows}


def render_csv(answer: Answer) -> str:
    """Return the records as CSV; without any the first table, or the figures."""
    if answer.records is not None:
        return write_csv(answer.records)
    if answer.tables:
        table = answer.tables[0]
        heads = [column.heading for column in table.columns]
        rows = [dict(zip(heads, row, strict=True)) for row in table.rows]
        return write_csv(pl.DataFrame(rows, infer_schema_length=None))
    return write_csv(pl.DataFrame(to_builtins(answer.figures), infer_schema_length=None))


def write_csv(frame: pl.DataFrame) -> str:
    """Return a frame as CSV in which no text is a formula."""
    buffer = io.StringIO()
    frame.with_columns(disarm_formulas(pl.selectors.string())).write_csv(buffer)
    return buffer.getvalue()


def disarm_formulas(column: pl.Expr, *, terminal: bool = False) -> pl.Expr:
    """Put an apostrophe before cells that a spreadsheet would take for a formula.

    Args:
        column: strings; numbers that are written as text stay as they are.
        terminal: replace control characters by question marks, as a terminal would obey them.
    """
    formula = column.str.contains(_FORMULA) & column.cast(pl.Float64, strict=False).is_null()
    text = pl.when(formula).then(column.str.replace("^", "'")).otherwise(column)
    return text.str.replace_all(_CONTROL, "?") if terminal else text
