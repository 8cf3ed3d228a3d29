"""Free memory within control groups."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import replayer.cli
import tracegen.cli
from tests.support import traces
from tests.support.paths import ROOT
from tracegen import memory
from tracegen.errors import InputError

MIB = 1 << 20
V2 = {"limit": "memory.max", "usage": "memory.current", "cached": "inactive_file"}
V1 = {"limit": "memory.limit_in_bytes", "usage": "memory.usage_in_bytes", "cached": "total_inactive_file"}
MOUNTED = {
    2: "30 1 0:1 {root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
    1: "29 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n30 1 0:1 {root} /sys/fs/cgroup rw - cgroup cgroup rw,memory",
}
IN_GROUP = {2: "0::{group}", 1: "3:cpu:/elsewhere\n2:memory:{group}\n0::/"}


@pytest.fixture(autouse=True)
def machine_of_8_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "meminfo", lambda _: 8192 * MIB)


class Groups:
    """A tree of control groups in files."""

    def __init__(self, place: Path, version: int) -> None:
        self.place, self.version, self.files = place, version, {1: V1, 2: V2}[version]

    def put(self, group: str, limit: object, used: int, cached: int = 0) -> None:
        folder = self.place / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.files["limit"]).write_text(f"{limit}\n")
        (folder / self.files["usage"]).write_text(f"{used * MIB}\n")
        (folder / "memory.stat").write_text(f"anon 1\n{self.files['cached']} {cached * MIB}\n")

    def available(self, group: str, root: str = "/") -> memory.Memory:
        (self.place / "mountinfo").write_text(MOUNTED[self.version].format(root=root) + "\n")
        (self.place / "cgroup").write_text(IN_GROUP[self.version].format(group=group) + "\n")
        return memory.available(self.place / "cgroup", self.place / "mountinfo", self.place)


@pytest.fixture(params=[1, 2])
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Groups:
    return Groups(tmp_path, request.param)


def test_without_a_limit_the_machines_memory_counts(groups: Groups) -> None:
    groups.put("a", "max" if groups.version == 2 else 2**63 - 4096, 100)
    assert groups.available("/a") == memory.Memory(8192 * MIB)
    assert groups.available("/gone") == memory.Memory(8192 * MIB)


def test_a_group_leaves_its_limit_less_its_usage_without_cached_files(groups: Groups) -> None:
    groups.put("a", 200 * MIB, 50, cached=20)
    free = groups.available("/a")
    assert free.bytes == (200 - 50 + 20) * MIB
    limit = groups.place / "sys/fs/cgroup/a" / groups.files["limit"]
    with pytest.raises(InputError, match=re.escape(f"85 MiB of memory are available ({limit} allows 200 MiB)")):
        free.require(86 * MIB, "it takes", "take less", shares=2)


def test_the_group_that_leaves_least_counts(groups: Groups) -> None:
    groups.put("a/b", 4096 * MIB, 0)
    groups.put("a", 1024 * MIB, 1000)
    groups.put("", 2048 * MIB, 0)
    assert groups.available("/a/b").bytes == 24 * MIB


def test_a_group_above_its_limit_leaves_nothing(groups: Groups) -> None:
    groups.put("a", 200 * MIB, 300)
    assert groups.available("/a").bytes == 0


def test_a_containers_own_group_may_be_the_root(groups: Groups) -> None:
    groups.put("", 200 * MIB, 0)
    assert groups.available("/docker/1f", root="/docker/1f").bytes == 200 * MIB
    assert groups.available("/../other").bytes == 200 * MIB


@pytest.mark.parametrize("command", ["plan {} --model tiny-1b --cpu-mem-gb 1 --set cycles=4", "info {}"])
def test_a_trace_that_does_not_fit_is_refused_before_it_is_read(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5), ("d", 0, 5)], [0, 0]))
    monkeypatch.setattr(memory, "meminfo", lambda _: 900)
    tool = tracegen.cli.main if command.startswith("info") else replayer.cli.main
    done = CliRunner().invoke(tool, command.format(trace.path).split())
    assert done.exit_code == 2
    assert "900 bytes of memory are available" in done.stderr


def test_memory_that_runs_out_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate 7.45 GiB")

    monkeypatch.setattr(tracegen, "read", fail)
    done = CliRunner().invoke(tracegen.cli.main, ["info", "t.parquet"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: memory ran out (Unable to allocate 7.45 GiB); ")


def test_a_container_that_is_too_small_is_refused_before_the_kernel_kills_it(tmp_path: Path) -> None:
    """In a real control group of 200 MiB, version 1; skipped if this user cannot make one."""
    group = Path(f"/sys/fs/cgroup/memory/kv-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(200 * MIB))
    except OSError:
        pytest.skip("needs the right to make a control group of version 1")
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5), ("d", 0, 5)], [0, 0]))
    command = f"{sys.executable} -m replayer run {trace.path} --model tiny-1b --cpu-mem-gb 1 --storage-capacity-gb 0"
    shell = f"echo $$ > {group}/cgroup.procs && exec {command} -o {tmp_path}/run"
    try:
        done = subprocess.run(["bash", "-c", shell], check=False, cwd=ROOT, capture_output=True, text=True)
    finally:
        group.rmdir()
    assert done.returncode == 2, done.stderr
    assert "Error: --cpu-mem-gb: the tier takes 1 GiB, but " in done.stderr
    assert f"({group}/memory.limit_in_bytes allows 200 MiB); pass at most 0." in done.stderr
