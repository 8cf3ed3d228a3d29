"""GPUDirect Storage with a stand-in for kvikio, which reads files into tensors of torch's CPU device."""

import os
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.plan import PlanOptions
from replayer.run.replay import Replay
from replayer.schema import parts
from replayer.tiers.throttled import Throttle
from tests.support import traces
from tests.support.run_settings import settings as make_settings
from tracegen.errors import InputError
from tracegen.schema import Trace

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")  # found, as its import takes 2 s
UNIT = 70_272  # bytes per token: no multiple of a sector


class CuFile:
    """A stand-in for kvikio.CuFile that moves at most `limit` bytes at a time."""

    calls: dict[str, int]
    limit: int

    def __init__(self, path: Path, flags: str) -> None:
        self._file = os.open(path, {"r": os.O_RDONLY, "r+": os.O_RDWR}[flags])

    def raw_read(self, tensor: Any, size: int, file_offset: int) -> int:
        self.calls["read"] += 1
        content = os.pread(self._file, min(size, self.limit), file_offset)
        tensor.numpy()[: len(content)] = bytearray(content)
        return len(content)

    def raw_write(self, tensor: Any, size: int, file_offset: int) -> int:
        self.calls["write"] += 1
        return os.pwrite(self._file, tensor.numpy()[: min(size, self.limit)].tobytes(), file_offset)

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def kvikio(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module, driver = ModuleType("kvikio"), ModuleType("kvikio.cufile_driver")
    CuFile.calls, CuFile.limit = {"read": 0, "write": 0}, 1 << 30
    driver.properties = SimpleNamespace(is_gds_available=True)  # type: ignore[attr-defined]
    module.CuFile, module.cufile_driver = CuFile, driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kvikio", module)
    monkeypatch.setitem(sys.modules, "kvikio.cufile_driver", driver)
    return module


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Objects of 1 to 25 units, read three times; all except the last few reach the nvme tier."""
    steps: list[traces.Step] = []
    for key in range(24):
        steps += [("w", key, 1 + key), ("d", key, 1 + key), ("d", max(0, key - 5), 1 + max(0, key - 5))]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps))


def go(trace: Trace, place: Path, gpu_tokens: int, **more: Any) -> tuple[dict[str, Any], pl.DataFrame]:
    plan = PlanOptions(TokenBytes(UNIT), (Decimal(gpu_tokens * UNIT) / 2**30, Decimal(0), None), Decimal(1))
    flags = {
        "workers": 4,
        "cache_dir": place / "cache",
        "gpu_device": "cpu",
        "gds": True,
        "verify": "full",
    } | more
    place.mkdir(exist_ok=True)
    info = Replay(trace, "test", plan, make_settings(**flags), place / "run").run().to_json()
    return info, pl.read_parquet(parts(place / "run"))


@pytest.mark.parametrize("limit", [1 << 30, 4096 * 3])
def test_every_byte_is_verified_after_gds_moves(kvikio: ModuleType, trace: Trace, tmp_path: Path, limit: int) -> None:
    """Stores come from device memory, hits end in it; demotions go through the host."""
    CuFile.limit = limit
    info, log = go(trace, tmp_path, 20)
    assert (info["status"], info["reason"]) == ("complete", None)
    assert info["conditions"]["gds"] is True
    assert min(CuFile.calls.values()) > 0
    log = log.with_columns(pl.col("move", "from_tier", "to_tier").cast(pl.String))
    kinds = log.filter((pl.col("from_tier") == "nvme") | (pl.col("to_tier") == "nvme"))
    assert set(kinds["move"]) == {"hit", "store", "demote"}
    assert (kinds.select("device_read_ns", "device_write_ns").max_horizontal() > 0).all()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("kind", ["store", "hit"])
def test_one_throttle_limits_cufile_and_the_kernel(kvikio: ModuleType, trace: Trace, tmp_path: Path, kind: str) -> None:
    """100 MiB/s per direction, for cuFile and kernel together; the waits are device time."""
    info, log = go(trace, tmp_path, 20, throttles={"nvme": Throttle(100)})
    assert info["status"] == "complete"
    log = log.with_columns(pl.col("move", "from_tier", "to_tier").cast(pl.String))
    side = log.filter((pl.col("from_tier") if kind == "hit" else pl.col("to_tier")) == "nvme")
    ours = side.filter(pl.col("move") == kind)
    assert len(ours) > 3
    took = side["end_ns"].max() - side["start_ns"].min()  # type: ignore[operator]
    assert took >= side["size_bytes"].sum() / (100 << 20) * 1e9 * 0.98
    alone = ours["size_bytes"] / (100 << 20) * 1e9
    assert (ours["device_read_ns" if kind == "hit" else "device_write_ns"] > alone - 5e6).all()


def test_a_short_transfer_is_a_row_of_the_log(
    kvikio: ModuleType, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CuFile, "raw_read", lambda *_: 0)
    info, log = go(trace, tmp_path, 20)
    assert info["status"] == "failed"
    assert "short transfer by cuFile" in str(log["error"].drop_nulls()[0])


def test_an_error_of_the_device_is_a_row_of_the_log(
    kvikio: ModuleType, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("cuFile internal error")

    monkeypatch.setattr(CuFile, "raw_read", broken)
    info, log = go(trace, tmp_path, 20)
    assert (info["status"], info["executed_ops"]) == ("failed", trace.ops)
    assert "cuFile internal error" in str(log["error"].drop_nulls()[0])
    monkeypatch.setattr(CuFile, "__init__", broken)
    open_files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (iterdir opens one itself)
    assert go(trace, tmp_path / "again", 20)[0]["status"] == "failed"
    assert len(os.listdir("/proc/self/fd")) <= open_files  # noqa: PTH208


def test_machines_and_runs_without_gds_are_refused(
    kvikio: ModuleType, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for more, gpu_tokens in (({"layout": "slab"}, 20), ({}, 0)):
        with pytest.raises(InputError, match="GPUDirect Storage reads files into the gpu's memory"):
            go(trace, tmp_path, gpu_tokens, **more)
    kvikio.cufile_driver.properties.is_gds_available = False  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="lacks cuFile"):
        go(trace, tmp_path, 20)
    monkeypatch.setitem(sys.modules, "kvikio", None)
    with pytest.raises(InputError, match=r"GPUDirect Storage needs kvikio-cu12 .*pip install"):
        go(trace, tmp_path, 20)
    assert list((tmp_path / "cache").glob("*")) == []
