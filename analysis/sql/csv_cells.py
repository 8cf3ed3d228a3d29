"""Text in CSV cells that neither a spreadsheet nor a terminal interprets."""

import polars as pl

_FORMULA = r"^[=+\-@\t\r]"
_CONTROL = r"[^\P{Cc}\n\t]"


def as_text(column: pl.Expr, *, terminal: bool = False) -> pl.Expr:
    """Put an apostrophe before cells that a spreadsheet would take for a formula.

    Numbers that are written as text stay as they are.

    Args:
        column: strings.
        terminal: replace control characters by question marks, as a terminal would obey them.
    """
    formula = column.str.contains(_FORMULA) & column.cast(pl.Float64, strict=False).is_null()
    text = pl.when(formula).then(column.str.replace("^", "'")).otherwise(column)
    return text.str.replace_all(_CONTROL, "?") if terminal else text
