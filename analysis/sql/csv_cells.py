"""Text in CSV cells: a spreadsheet must not take it for a formula, nor a terminal for a command."""

import polars as pl

_FORMULA = r"^[=+\-@\t\r]"
_CONTROL = r"[^\P{Cc}\n\t]"


def as_text(column: pl.Expr, *, terminal: bool = False) -> pl.Expr:
    """A column of text whose cells stay text: an apostrophe stands before what would begin a formula.

    Numbers that are written as text stay as they are.

    Args:
        column: of strings.
        terminal: show control characters as question marks, so that a terminal does not obey them.
    """
    formula = column.str.contains(_FORMULA) & column.cast(pl.Float64, strict=False).is_null()
    text = pl.when(formula).then(column.str.replace("^", "'")).otherwise(column)
    return text.str.replace_all(_CONTROL, "?") if terminal else text
