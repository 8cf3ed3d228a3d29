"""Memory that runs out in the core: every allocation of a plan and of a run is refused once, and is told in a sentence."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import traces
from tests.support.paths import ROOT

SHIM = r"""
#include <stdlib.h>

/* The addresses of the core's code, its allocations so far, and the number of the one that is refused. */
long first, last, asked, refused = -1;
static int is_refused(const void *caller) {
    return (long)caller >= first && (long)caller < last && __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) == refused;
}

#define UNLESS_REFUSED(call) (is_refused(__builtin_return_address(0)) ? NULL : (call))
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { return UNLESS_REFUSED(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return UNLESS_REFUSED(__libc_calloc(count, size)); }
void *realloc(void *memory, size_t size) { return UNLESS_REFUSED(__libc_realloc(memory, size)); }
void *aligned_alloc(size_t unit, size_t size) { return UNLESS_REFUSED(__libc_memalign(unit, size)); }
"""
DRIVER = """
import ctypes, functools, importlib.util, json, os, sys
import pyarrow.parquet, replayer.run.replay
from replayer.cli import main
from replayer.machine import description

description.digest_code = functools.cache(description.digest_code)
description.describe()
os.fsync = lambda file: None  # no file of these runs is to outlive the machine

first, last, asked, refused = (
    ctypes.c_long.in_dll(ctypes.CDLL(None), name) for name in ("first", "last", "asked", "refused")
)
ctypes.CDLL(importlib.util.find_spec("replayer._core").origin)  # that it has its addresses
(core,) = (line.split()[0] for line in open("/proc/self/maps") if "replayer/_core" in line and " r-xp " in line)
first.value, last.value = (int(end, 16) for end in core.split("-"))
number, left = 0, False
while not left:
    number += 1
    pid = os.fork()
    if not pid:  # imports and digests are made once for all of them
        errors = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        refused.value = asked.value + number
        try:
            code = main(sys.argv[2:], standalone_mode=True)
        except SystemExit as end:
            code = end.code
        os._exit(99 if asked.value < refused.value and not code else code or 0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = status == 99
    print(json.dumps([number, status, open(sys.argv[1]).read()]), flush=True)
"""
RUN = (
    "run {trace} --model tiny-1b --cpu-mem-gb 0.001 --storage-capacity-gb 0.01 --workers 2 --duration unlimited"
    " --cache-dir {place} --layout slab -o {place}/run --force"
)
ENOUGH = 99
COMMANDS = {"planned": RUN + " --pace closed --set request_depth=2", "live": RUN + " --pace asap --placement live"}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that replaces malloc, calloc, realloc and aligned_alloc."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    place = tmp_path_factory.mktemp("shim")
    (place / "shim.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-O1", str(place / "shim.c"), "-o", str(place / "shim.so")]
    subprocess.run(command, check=True)
    return place / "shim.so"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_allocation_that_is_refused_is_told_in_a_sentence(name: str, shim: Path, tmp_path: Path) -> None:
    steps = [(kind, key, 5) for key in range(6) for kind in "wrd"]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, [0] * len(steps)))
    words = COMMANDS[name].format(trace=trace.path, place=tmp_path).split()
    driver = [sys.executable, "-c", DRIVER, str(tmp_path / "errors"), *words]
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    done = subprocess.run(driver, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    *refused, (number, status, _) = map(json.loads, done.stdout.splitlines())
    assert status == ENOUGH
    assert number > 20, "allocations were refused"
    for number, status, errors in refused:
        assert status in (0, 1, 2), f"{number}: {status} {errors}"  # no signal, and no crash
        assert "Traceback" not in errors, f"{number}: {errors}"
        if status:
            assert "memory" in errors, f"{number}: {errors}"
