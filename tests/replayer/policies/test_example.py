"""The page's example of a new policy: short, compiled as it stands, and right."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from replayer.bindings.compiled import TRACE_KEY, WorkloadStruct, address, reference
from tests.support.paths import ROOT

CORE = ROOT / "replayer" / "core"


def example() -> str:
    (found,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs" / "policy-rules.md").read_text(), re.S)
    return str(found)


def test_the_example_has_at_most_forty_lines() -> None:
    assert len(example().splitlines()) <= 40


def test_the_example_evicts_the_most_recent_object(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    policies = tmp_path / "core" / "policies"
    shutil.copytree(CORE, policies.parent, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (policies / "mru.c").write_text(example())
    table = (policies / "policies.c").read_text()
    (policies / "policies.c").write_text(table.replace("BELADY;", "BELADY, MRU;").replace("&BELADY,", "&BELADY, &MRU,"))
    library = tmp_path / "library.so"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        [compiler, *flags, *map(str, (*policies.glob("*.c"), policies.parent / "memory.c")), "-o", str(library)],
        check=True,
    )
    core = ctypes.CDLL(str(library))
    core.policy_count.restype = ctypes.c_int64
    sizes, ops = np.zeros(4, TRACE_KEY), np.array([0, 1, 2, 3] * 5, np.uint32)
    sizes["size"], sums, evicted = 1, np.zeros(8, np.int64), np.zeros((len(ops), 2), np.uint32)
    workload = WorkloadStruct(keys=4, key=address(sizes))
    core.policy_run(
        ctypes.c_int64(core.policy_count() - 1), ctypes.c_int64(3), reference(workload), None,
        ctypes.c_void_p(address(ops)), None, ctypes.c_int64(len(ops)), ctypes.c_void_p(address(sums)),
        ctypes.c_void_p(address(evicted)),
    )  # fmt: skip
    # The scan repeats: once the tier is full it misses once in three ops; lru would always miss.
    assert evicted[: sums[4]].tolist() == [[3, 2], [6, 1], [9, 0], [12, 3], [15, 2], [18, 1]]
    assert sums[:2].tolist() == [11, 9]
