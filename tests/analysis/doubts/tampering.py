"""Changes of a crafted run's log, all parts at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from replayer.schema import LOG_ENUMS, parts

CODE = {name: {word: code for code, word in enumerate(words)} for name, words in LOG_ENUMS.items()}
Log = Callable[[pl.DataFrame], pl.DataFrame]


def tampered(place: Path, change: Log) -> Path:
    """All rows of a run changed at once; types, enums and parts as they were."""
    for path in parts(place):
        schema, table = pq.read_schema(path), pl.read_parquet(path)
        words = [pl.col(name).cast(pl.String) for name in LOG_ENUMS if name in table.columns]
        changed = change(table.with_columns(words)).to_arrow()
        arrays = [changed[one.name].cast(pa.string()).dictionary_encode().cast(one.type) if pa.types.is_dictionary(one.type)
                  else changed[one.name].cast(one.type) for one in schema]  # fmt: skip
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return place


def cell(name: str, value: Any, where: pl.Expr | None = None) -> Log:
    """The first row that fits (or all rows that do, for an expression) with another value."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        wanted = pl.lit(True) if where is None else where
        rows = table.with_row_index("n").filter(wanted)["n"]
        chosen = pl.int_range(pl.len()).is_in([rows[0]]) if not isinstance(value, pl.Expr) and len(rows) else wanted
        made = value if isinstance(value, pl.Expr) else pl.lit(value)
        return table.with_columns(
            pl.when(chosen).then(made).otherwise(pl.col(name)).cast(table[name].dtype).alias(name)
        )

    return change


HITS, STORES = pl.col("move") == "hit", pl.col("move") == "store"


def swap(name: str, by: pl.Expr) -> Log:
    """Two neighbours of a kind exchange values: every total stays."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        rows = table.with_row_index("n").filter(by)
        pair = next(
            (a, b) for a, b in zip(rows.rows(named=True), rows.rows(named=True)[1:], strict=False) if a[name] != b[name]
        )
        values = table[name].to_list()
        values[pair[0]["n"]], values[pair[1]["n"]] = pair[1][name], pair[0][name]
        return table.with_columns(pl.Series(name, values, table[name].dtype))

    return change  # fmt: skip


def twice_and_gone(table: pl.DataFrame) -> pl.DataFrame:
    hits = table.with_row_index("n").filter(HITS)["n"]
    return pl.concat([table.filter(pl.int_range(pl.len()) != hits[5]), table.filter(pl.int_range(pl.len()) == hits[9])])
