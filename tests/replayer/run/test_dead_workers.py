"""A worker that dies fails the run."""

from pathlib import Path
from typing import Any

import pytest

from replayer.run.replay import Replay
from replayer.tiers import BACKENDS
from replayer.tiers.cpu import CpuTier
from tests.replayer.run.replays import options
from tests.support.run_json import run_json
from tests.support.run_settings import settings as make_settings
from tracegen.schema import Trace


class Dying(CpuTier):
    """Its moves are made in Python, which goes wrong where nobody thought of it."""

    is_compiled = False

    def create(self, key: int, size: int) -> Any:
        return 1 / 0


@pytest.mark.parametrize("workers", [1, 64])
def test_a_dead_worker_fails_the_run(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setitem(BACKENDS, "cpu", Dying)
    chosen = make_settings(workers=workers, cache_dir=tmp_path / "cache")
    result = Replay(trace, "test", options(8, None, demand=chosen.demand), chosen, tmp_path / "run").run()
    assert result.whole.status == "failed"
    assert "ZeroDivisionError" in (result.whole.reason or "")
    assert run_json(tmp_path / "run")["executed_ops"] == 0
    assert list(tmp_path.glob("cache/*")) == []
