"""fio jobs and their I/O logs."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tracegen.export.exports import export_trace, rows_of
from tracegen.errors import InputError
from tracegen.schema import Trace


def test_fio_runs_the_job_and_moves_the_bytes(small: Trace, tmp_path: Path) -> None:
    if not shutil.which("fio"):
        pytest.skip("needs fio")
    log = tmp_path / "trace.iolog"
    counts = export_trace("fio", small, log, 1_000_000)
    assert counts["bytes_moved"] == sum(-(-n * 1_000_000 // 4096) * 4096 for n in (5, 7, 5, 7, 7, 7))
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["fio", "--output-format=json", f"{log}.fio"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert job["read"]["io_bytes"] + job["write"]["io_bytes"] == counts["bytes_moved"]
    assert job["write"]["io_bytes"] == sum(-(-n * 1_000_000 // 4096) * 4096 for n in (5, 7))
    assert (folder / "kv-cache.data").stat().st_size == counts["bytes_of_disk"]


def test_the_iolog_record_by_record(office: Trace, tmp_path: Path) -> None:
    counts = export_trace("fio", office, tmp_path / "t.iolog", 131_071)
    first, add, open_, *lines, close = (tmp_path / "t.iolog").read_text().splitlines()
    assert [first, add, open_] == ["fio version 3 iolog", "1 kv-cache.data add", "1 kv-cache.data open"]
    places: dict[int, int] = {}
    end, left = 0, iter(lines)
    for op in rows_of(office):
        size = -(-op["tokens"] * 131_071 // 4096) * 4096
        place = places.setdefault(op["key"], end)
        end = max(end, place + size)
        while size:
            time, file, action, offset, length = next(left).split()
            assert (int(time), file, action) == (op["time_ns"] // 1000 + 1, "kv-cache.data", op["op"])
            assert int(offset) == place
            assert 0 < int(length) <= min(size, 4 << 20)
            place, size = place + int(length), size - int(length)
    assert not list(left)
    assert close == f"{op['time_ns'] // 1000 + 1} kv-cache.data close"
    assert counts["pieces"] == len(lines)
    assert counts["bytes_of_disk"] == end


@pytest.mark.parametrize("name", ["a:b", "a;b", "a#b", "${HOME}", "t.iolog.zst"])
def test_paths_that_fio_cannot_parse_are_refused(name: str, small: Trace, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="fio reads only plain logs"):
        export_trace("fio", small, tmp_path / name / ("t.iolog" if "zst" not in name else name))
    assert not list((tmp_path / name).iterdir())
