"""Traces that several tests replay in processes of their own."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from tests.support.going_runs import READS, USERS


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four users who write 0.75 MiB each and read it again: four minutes behind SLOW's throttle."""
    small = traces.columns([(op, key, 32) for key in range(USERS) for op in "wd"], np.repeat(np.arange(USERS), 2))
    rows = np.concatenate([[2 * key] + [2 * key + 1] * READS for key in range(USERS)])
    batch = {name: column[rows] for name, column in small.items()}
    batch |= {"op_id": np.arange(len(rows)), "time_ns": np.arange(len(rows))}
    batch["step"] = np.tile(np.arange(READS + 1, dtype=np.int32), USERS)
    return traces.write(tmp_path_factory.mktemp("endless") / "t.parquet", batch).path


@pytest.fixture(scope="session")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,200 requests, each of which writes 48 KiB and reads it: 56 MiB."""
    steps = [(op, key, 2) for key in range(1200) for op in "wd"]
    batch = traces.columns(steps, np.repeat(np.arange(1200), 2))
    return traces.write(tmp_path_factory.mktemp("storing") / "t.parquet", batch).path


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 requests of as many sessions; objects of 24 to 120 KiB, each read again by later requests."""
    ops: list[list[traces.Step]] = [
        [("r", key, 1 + key % 5) for key in range(max(0, request - 3), request)]
        + [(op, request, 1 + request % 5) for op in "wd"]
        for request in range(12)
    ]
    batch = traces.columns(list(chain.from_iterable(ops)), np.repeat(np.arange(12), [len(one) for one in ops]))
    return traces.write(tmp_path_factory.mktemp("short") / "t.parquet", batch).path
