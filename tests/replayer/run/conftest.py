"""A small trace, and transfers that fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import traces
from tests.support.fault_injection import Transfer, injected, key_of
from tracegen.schema import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """12 requests of four users; objects of 1 to 5 tokens, each read again by later requests."""
    steps: list[traces.Step] = []
    requests: list[int] = []
    for request in range(12):
        size = 1 + request % 5
        earlier = [("r", key, 1 + key % 5) for key in range(max(0, request - 3), request)]
        ops: list[traces.Step] = [*earlier, ("w", request, size), ("d", request, size), ("d", request, size)]
        steps += ops
        requests += [request] * len(ops)
    return traces.write(tmp_path / "trace.parquet", traces.columns(steps, requests))


@pytest.fixture
def broken() -> Iterator[dict[int, OSError]]:
    """Keys whose next write to the disk fails, and how."""
    faults: dict[int, OSError] = {}

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if (key := key_of(descriptor)) in faults:
            raise faults.pop(key)
        return true(descriptor, memory, size, offset)

    with injected(pwrite=pwrite):
        yield faults
