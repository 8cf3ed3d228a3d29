"""Write the golden answers for tests/data/run to tests/data/golden, a Parquet file per table."""

import polars as pl

from tests.analysis import metric_oracle
from tests.analysis.metric_oracle import DATA, TABLES


def main() -> None:
    facts = metric_oracle.read(DATA / "run", metric_oracle.GOLDEN_TARGETS)
    found = metric_oracle.summary(facts).items()
    metrics = [(name, *((None, value) if isinstance(value, str) else (value, None))) for name, value in found]
    columns = {"name": pl.String, "number": pl.Float64, "text": pl.String}
    tables = {"metrics": pl.DataFrame(metrics, columns, orient="row", strict=False)}
    tables |= {name: pl.DataFrame(table(facts), infer_schema_length=None) for name, table in TABLES.items()}
    for name, table in tables.items():
        table.write_parquet(DATA / "golden" / f"{name}.parquet")


if __name__ == "__main__":
    main()
