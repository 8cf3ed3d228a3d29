"""oracleGeneral files, read record by record and by libCacheSim."""

import struct
from pathlib import Path

import pytest

from tests.support import traces
from tests.tracegen.export.exports import export_trace
from tracegen.errors import InputError
from tracegen.schema import Trace


def test_oracle_general_record_by_record(small: Trace, tmp_path: Path) -> None:
    counts = export_trace("oracle-general", small, tmp_path / "t.bin")
    assert counts == {"records": 6, "deletes_left_out": 1}
    found = list(struct.iter_unpack("<IQIq", (tmp_path / "t.bin").read_bytes()))
    assert found == [
        (0, 0, 5000, 2), (1, 1, 7000, 3), (3, 0, 5000, -1), (4, 1, 7000, 4), (7, 1, 7000, 5), (9, 1, 7000, -1),
    ]  # fmt: skip


def test_libcachesim_reads_it_and_hits_as_lru_and_belady(blocks: Trace, tmp_path: Path) -> None:
    lib = pytest.importorskip("libcachesim")
    path = tmp_path / "t.oracleGeneral"
    export_trace("oracle-general", blocks, path, 1)
    reader = lib.TraceReader(str(path), lib.TraceType.ORACLE_GENERAL_TRACE)
    misses, _ = lib.LRU(cache_size=1000 * 512).process_trace(reader)
    assert misses == pytest.approx(1 - 638 / blocks.ops), "the published rule hits 638 times"
    # The optimum by next access comes out only if that is a number of a record, not a distance.
    reader.reset()
    best, _ = lib.Belady(cache_size=1000 * 512).process_trace(reader)
    assert best == pytest.approx(1 - 2414 / blocks.ops), "as a search of all next uses in plain Python hits"


def test_objects_and_times_beyond_32_bits_are_refused(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5), ("w", 1, 70)]))
    with pytest.raises(InputError, match="row 1: 4690000000 bytes"):
        export_trace("oracle-general", trace, tmp_path / "t.bin", 67_000_000)
    late = traces.columns([("w", 0, 5), ("w", 1, 70)], time_ns=[0, 2**32 * 10**9])
    with pytest.raises(InputError, match="row 1: 4294967296 seconds"):
        export_trace("oracle-general", traces.write(tmp_path / "t.parquet", late), tmp_path / "t.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
