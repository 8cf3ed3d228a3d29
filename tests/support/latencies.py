"""A cache of latencies for tests that summarise one log many times."""

import contextlib
from collections.abc import Iterator

import polars as pl
import pytest

from analysis.log.log import Log
from replayer.schema import LOG_ENUMS

KNOWN: dict[bytes, tuple[pl.DataFrame, pl.DataFrame]] = {}  # shared by all tests of a process
COMPUTE_SPREADS = Log._spreads.func  # type: ignore[attr-defined]


@contextlib.contextmanager
def latencies_known() -> Iterator[None]:
    """Latencies of rows that were seen before are not computed again, which is most of a summary's time.

    For tests that write one log under many a run.json; they are made of a row's enums, size and times.
    """
    kept = pl.selectors.by_name(*LOG_ENUMS, "size_bytes") | pl.selectors.ends_with("_ns")

    def once(log: Log) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = pl.concat(log.stretches).select(kept).collect().hash_rows().to_numpy().tobytes()
        if rows not in KNOWN:
            KNOWN[rows] = COMPUTE_SPREADS(log)
        return KNOWN[rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "_spreads", property(once))
        yield
