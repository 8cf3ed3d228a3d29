"""Exports that are refused, and outputs that are not replaced."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import traces
from tests.tracegen.export.exports import BATCHES, export_trace
from tracegen.errors import InputError
from tracegen.formats import EXPORTS
from tracegen.schema import Columns, Trace


@pytest.mark.parametrize("format_", EXPORTS)
def test_an_existing_output_is_not_replaced_unasked(format_: str, blocks: Trace, tmp_path: Path) -> None:
    (tmp_path / "o").write_text("precious")
    with pytest.raises(InputError, match="`force`"):
        export_trace(format_, blocks, tmp_path / "o")
    assert (tmp_path / "o").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]
    export_trace(format_, blocks, tmp_path / "o", 8, force=True)
    assert (tmp_path / "o").stat().st_size > 1000


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_uneven_blocks_are_refused(format_: str, small: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.parquet: it has no blocks; .*`block_tokens`"):
        export_trace(format_, small, tmp_path / "o")
    batch = traces.columns([("w", 0, 4), ("w", 1, 8)], requests=[0, 0])
    uneven = traces.write(tmp_path / "u.parquet", batch, block_tokens=8)
    with pytest.raises(InputError, match="request 0 is not made of full blocks"):
        export_trace(format_, uneven, tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["u.parquet"]


@pytest.mark.parametrize("format_", EXPORTS)
def test_no_partial_file_stays(format_: str, blocks: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partials: list[str] = []

    def broken(trace: Trace, size: int = 0, more: tuple[str, ...] = ()) -> Iterator[Columns]:
        for number, batch in enumerate(BATCHES(trace, 1000)):
            found = [path.name for path in tmp_path.iterdir()]
            partials.extend(found)
            if found and number == 3:
                raise OSError(28, "No space left on device")
            yield batch

    monkeypatch.setattr(Trace, "batches", broken)
    with pytest.raises(InputError):
        export_trace(format_, blocks, tmp_path / "o")
    assert {re.sub(r"\.\d+-0\.partial$", "", name) for name in partials} == {"o", *["o.fio"][: format_ == "fio"]}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_ops_that_requests_do_not_express_are_counted(format_: str, tmp_path: Path) -> None:
    steps = [("w", 0, 8), ("d", 0, 8), ("d", 0, 8), ("x", 0, 8), ("w", 1, 3)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, requests=[0, 0, 1, 2, 3]), block_tokens=8)
    counts = export_trace(format_, trace, tmp_path / "o")
    left_out = {"requests_left_out": 2, "decode_ops_left_out": 2, "deletes_left_out": 1}
    assert {name: counts[name] for name in ("requests", *left_out)} == {"requests": 2, **left_out}
