"""Write the golden answers for tests/data/run to tests/data/golden, a Parquet file per table."""

import pyarrow as pa
import pyarrow.parquet as pq

from tests.analysis.metric_oracle.facts import DATA, GOLDEN_TARGETS, Facts, Rows, read
from tests.analysis.metric_oracle.metrics import summary
from tests.analysis.metric_oracle.tables import TABLES


def golden(facts: Facts) -> dict[str, Rows]:
    """By file: the metrics as (name, number, text), and every table."""
    metrics = [
        {
            "name": name,
            "number": None if isinstance(value, str) else value,
            "text": value if isinstance(value, str) else None,
        }
        for name, value in summary(facts).items()
    ]
    return {"metrics": metrics} | {name: table(facts) for name, table in TABLES.items()}


def main() -> None:
    (DATA / "golden").mkdir(exist_ok=True)
    for name, rows in golden(read(DATA / "run", GOLDEN_TARGETS)).items():
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        if name == "metrics":
            columns["number"] = [None if value is None else float(value) for value in columns["number"]]
        pq.write_table(pa.table(columns), DATA / "golden" / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main()
