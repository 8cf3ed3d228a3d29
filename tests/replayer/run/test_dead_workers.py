"""A worker that dies fails the run."""

from pathlib import Path
from typing import Any

import pytest

from replayer.bindings.compiled import call
from replayer.run.replay import replay
from replayer.tiers import BACKENDS
from replayer.tiers.cpu import CpuTier
from tests.replayer.run.replays import options
from tests.support.run_json import run_json
from tests.support.run_settings import settings as make_settings
from tracegen.schema import Trace


class Dying(CpuTier):
    """Its moves are made in Python, which goes wrong where nobody thought of it."""

    def __init__(self, usable: int, objects: int = 0) -> None:
        super().__init__(usable, objects)
        self._elsewhere = int(call("tier_elsewhere")())

    @property
    def engine_handle(self) -> int:
        return self._elsewhere

    def create(self, key: int, size: int) -> Any:
        return 1 / 0

    def close(self) -> None:
        call("tier_free")(self._elsewhere)
        super().close()


@pytest.mark.parametrize("workers", [1, 64])
def test_a_dead_worker_fails_the_run(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setitem(BACKENDS, "cpu", Dying.from_request)
    chosen = make_settings(workers=workers, cache_dir=tmp_path / "cache")
    result = replay(trace, "test", options(8, None, demand=chosen.demand), chosen, tmp_path / "run")
    assert result.whole.status == "failed"
    assert "ZeroDivisionError" in (result.whole.reason or "")
    assert run_json(tmp_path / "run")["executed_ops"] == 0
    assert list(tmp_path.glob("cache/*")) == []
