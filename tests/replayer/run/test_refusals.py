"""Runs that are refused before anything is written."""

import os
from decimal import Decimal
from pathlib import Path

import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.plan import PlanOptions
from replayer.tiers.base import ALIGNMENT
from tests.replayer.run.replays import UNIT, gib, go, options, refused
from tracegen import memory
from tracegen.errors import InputError
from tracegen.schema import Trace


def test_a_plan_that_fits_but_for_its_padding_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(0, None)
    exact = sum(1 + key % 5 for key in range(12)) * UNIT

    def free(size: int) -> None:
        sizes = {"f_blocks": 0, "f_bavail": size, "f_frsize": 1}
        monkeypatch.setattr(os, "statvfs", lambda _: type("Free", (), sizes))

    free(exact)
    assert refused(trace, tmp_path, chosen).setting == "cache_dir"
    free(exact + 12 * ALIGNMENT)
    assert go(trace, tmp_path, chosen)[0]["status"] == "complete"


def test_plans_that_the_memory_cannot_hold_are_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "meminfo", lambda _: UNIT)
    assert refused(trace, tmp_path, options(6, None)).setting == "cpu_mem_gb"


def test_settings_that_cannot_work_are_refused(trace: Trace, tmp_path: Path) -> None:
    assert "cache_dir" in str(refused(trace, tmp_path, options(0, None), cache_dir=None))
    gpu = PlanOptions(TokenBytes(UNIT), (gib(4), Decimal(0), None))
    assert "gpu_mem_gb" in str(refused(trace, tmp_path, gpu))
    with pytest.raises(InputError, match="no tier has any room"):
        options(0, 0)
    (tmp_path / "file").write_text("x")
    assert "cache_dir" in str(refused(trace, tmp_path, options(0, None), cache_dir=tmp_path / "file"))
