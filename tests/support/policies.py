"""One tier with one eviction policy of the compiled core."""

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import TRACE_KEY, WorkloadStruct, address, reference
from tests.support.compiled_core import library
from tests.support.paths import ROOT


def _compile() -> ctypes.CDLL:
    """Compile one_tier.c, which calls the core's policies."""
    with tempfile.TemporaryDirectory() as place:
        command = ["cc", "-shared", "-fPIC", "-O2", "-I", "replayer/core/policies", "tests/support/one_tier.c"]
        subprocess.run([*command, library()._name, "-o", f"{place}/one_tier.so"], check=True, cwd=ROOT)
        return ctypes.CDLL(f"{place}/one_tier.so")


_CORE: Final = _compile()
_CORE.policy_at.restype, _CORE.policy_at.argtypes = ctypes.c_void_p, (ctypes.c_int64,)
_P: Final = ctypes.c_void_p
_CORE.policy_run.argtypes = (ctypes.c_int64, ctypes.c_int64, _P, _P, _P, _P, ctypes.c_int64, _P, _P)


class _Kind(ctypes.Structure):
    """The head of a PolicyKind."""

    _fields_ = (("name", ctypes.c_char_p), ("needs_future", ctypes.c_bool), ("needs_parent", ctypes.c_bool))


def _kinds() -> list[_Kind]:
    return [_Kind.from_address(_CORE.policy_at(index)) for index in range(_CORE.policy_count())]


KINDS: Final = {kind.name.decode(): kind for kind in _kinds()}
"""By name, in the order of the table."""


@dataclass(frozen=True)
class OneTier:
    """What a tier did; the fields as in one_tier.c.

    Attributes:
        evicted: the position of the op and the key of each eviction.
    """

    hits: int
    misses: int
    bypasses: int
    deletes: int
    evictions: int
    used: int
    peak: int
    strays: int
    evicted: list[tuple[int, int]]


def run_policy(
    name: str,
    capacity: int,
    keys: Sequence[int] | NDArray[Any],
    sizes: Sequence[int] | NDArray[Any],
    deletes: Sequence[bool] | None = None,
    parents: Sequence[int] | None = None,
) -> OneTier:
    """Run ops on a tier with a policy: reads, or deletes where `deletes` says so.

    Args:
        name: of the policy.
        capacity: of the tier, in bytes.
        keys: per op.
        sizes: per key, in bytes.
        deletes: per op.
        parents: per key; -1: none.
    """
    table = np.zeros(len(sizes), TRACE_KEY)
    table["size"] = sizes
    workload = WorkloadStruct(keys=len(sizes), key=address(table))
    ops, sums = np.array(keys, np.uint32), np.zeros(8, np.int64)
    removes = None if deletes is None else np.array(deletes, np.uint8)
    before = None if parents is None else np.array(parents, np.int32)
    evicted = np.zeros((len(ops) + 1, 2), np.uint32)
    optional = [None if array is None else address(array) for array in (before, removes)]
    _CORE.policy_run(
        list(KINDS).index(name), capacity, reference(workload), optional[0], address(ops), optional[1], len(ops),
        address(sums), address(evicted),
    )  # fmt: skip
    pairs = [(int(position), int(key)) for position, key in evicted[: sums[4]].tolist()]
    counts = dict(zip(OneTier.__dataclass_fields__, sums.tolist(), strict=False))
    return OneTier(**counts, evicted=pairs)
