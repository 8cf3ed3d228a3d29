"""An answer for programs: JSON and CSV."""

import json
from typing import Final

from msgspec import to_builtins

from views.answer import Answer, Table

# What a spreadsheet takes for a formula; a number that is written as text is none
_FORMULA: Final = r"^[=+\-@\t\r]"


def render_json(answer: Answer) -> str:
    """Return an answer as JSON: figures, tables and doubts as they are, and `data` beside them."""
    content: dict[str, object] = {
        "title": answer.title,
        "subject": answer.subject,
        "state": answer.state,
        "sentence": answer.sentence,
        "figures": to_builtins(answer.figures),
        "tables": [
            {"name": table.name, "title": table.title, "rows": _name_cells(table)}
            for table in answer.tables
            if not table.is_folded
        ],
        "doubts": to_builtins(answer.doubts),
        "next": answer.next,
    }
    return json.dumps(content | dict(answer.data), indent=1) + "\n"


def _name_cells(table: Table) -> list[dict[str, object]]:
    heads = [column.heading for column in table.columns]
    return [dict(zip(heads, row, strict=True)) for row in table.rows]


def render_csv(answer: Answer) -> str:
    """Return the records as CSV; without any the first table, or the figures."""
    import polars as pl  # noqa: PLC0415 (`--help` need not load it)

    records: pl.DataFrame | None = answer.records
    if records is None:
        rows = _name_cells(answer.tables[0]) if answer.tables else to_builtins(answer.figures)
        records = pl.DataFrame(rows, infer_schema_length=None)
    text = pl.selectors.string()
    is_formula = text.str.contains(_FORMULA) & text.cast(pl.Float64, strict=False).is_null()
    safe = records.with_columns(pl.when(is_formula).then(text.str.replace("^", "'")).otherwise(text))
    return safe.write_csv()
