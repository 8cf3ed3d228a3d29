"""What the machine did to a run: others on its CPUs and its disk, quotas, stops; and what counters cannot say."""

import os
import signal
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.summary.summary import summarise
from replayer.machine import device_counters as counters
from replayer.models.geometry import TokenBytes
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Plan, PlanOptions
from tests.support import traces
from tests.support.crafted_runs import SECOND, Crafted, clean
from tests.support.doubts import Change, found
from tests.support.going_runs import CACHE, MODEL, Going, going, info
from tracegen.errors import InputError
from tracegen.schema import Trace

pytestmark = pytest.mark.usefixtures("latencies_once")


# What a run's samples show


def measured(run: Crafted, **values: Any) -> list[dict[str, Any]]:
    """Samples as this release makes them, of a machine that does nothing else, with changes to each of them."""
    assert run.samples is not None
    for sample in run.samples:
        own = {f"process_{name}": sample[name] for name in ("read_bytes", "written_bytes")}
        sample.update(own | {"steal_cpu": 0.0, "run_delay_ns": 0, "throttled_ns": 0, "sampler_delay_ns": 0} | values)
    return run.samples


def starved(run: Crafted, share: float) -> None:
    io_ns = int((run.rows["read_ns"] + run.rows["write_ns"]).sum())
    measured(run, run_delay_ns=int(io_ns * share / len(run.samples or ())))


def stopped(run: Crafted, seconds: int, **values: Any) -> None:
    """The samples of so many seconds are one, with these values."""
    *_, last = joined = measured(run)[20 : 20 + seconds]
    for name in ("read_bytes", "written_bytes", "process_read_bytes", "process_written_bytes"):
        last[name] = sum(sample[name] for sample in joined)
    last |= {"interval_ns": seconds * SECOND} | values
    run.samples = [sample for sample in run.samples or () if sample is last or sample not in joined]


def beside(run: Crafted, share: float) -> None:
    """Of the device's bytes, a share is of others."""
    for sample in measured(run):
        for name in ("read_bytes", "written_bytes"):
            sample[name] = round(sample[f"process_{name}"] / (1 - share))


ALONE_CPU = 0.3  # of crafted samples
THRESHOLDS: list[tuple[str, str, Change, Change]] = [  # kind, words, what fires, what does not
    ("busy machine", "4.16 of 16 cores", lambda run: measured(run, system_cpu=ALONE_CPU + 4.16), lambda run: measured(run, system_cpu=ALONE_CPU + 3.9)),
    ("busy machine", "took 4.00 (steal)", lambda run: measured(run, steal_cpu=4.0), lambda run: measured(run, steal_cpu=3.7)),
    ("paused", "at least 2.0 s", lambda run: stopped(run, 3), lambda run: stopped(run, 2)),
    ("paused", "at least 2.5 s", lambda run: stopped(run, 5, sampler_delay_ns=SECOND, throttled_ns=SECOND // 2), lambda run: stopped(run, 5, sampler_delay_ns=2 * SECOND, throttled_ns=SECOND)),
    ("starved", "s for a CPU", lambda run: starved(run, 0.255), lambda run: starved(run, 0.245)),
    ("starved", "quota", lambda run: measured(run, throttled_ns=SECOND * 51 // 1000), lambda run: measured(run, throttled_ns=SECOND * 49 // 1000)),
    ("foreign I/O", "21% of the bytes", lambda run: beside(run, 0.21), lambda run: beside(run, 0.19)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "words", "fires", "silent"), THRESHOLDS, ids=[f"{one[0]}-{one[1]}" for one in THRESHOLDS]
)
def test_a_doubt_on_the_machine_fires_above_its_threshold(
    tmp_path: Path, kind: str, words: str, fires: Change, silent: Change
) -> None:
    run = clean()
    fires(run)
    ((doubt,),) = found(run, tmp_path).values()  # one fact is told once
    assert doubt.kind == kind
    assert words in doubt.text
    assert doubt.invalidates == (kind == "paused")
    run = clean()
    silent(run)
    assert found(run, tmp_path / "silent") == {}


def test_a_neighbour_that_reads_hides_no_page_cache(tmp_path: Path) -> None:
    run = clean()
    for sample in measured(run):
        sample["process_read_bytes"] = int(sample["read_bytes"] * 0.4)
    told = found(run, tmp_path)
    (doubt,) = told["page cache"]
    assert "delivered 40%" in doubt.text
    assert doubt.invalidates
    assert "counters disagree" not in told


def test_a_killed_run_is_compared_up_to_its_last_sample(tmp_path: Path) -> None:
    """Its counters end at 30 s, its log at 58 s."""
    run = clean()
    run.info |= {"status": "running", "reason": "the run has not ended, or was killed", "executed": None}
    kept = run.rows["end_ns"] <= 58 * SECOND
    run.rows = {name: column[kept] for name, column in run.rows.items()}
    run.samples = [sample for sample in measured(run) if sample["time_ns"] <= 30 * SECOND]
    told = found(run, tmp_path / "a")
    assert "incomplete" in told
    assert not {"page cache", "counters disagree", "foreign I/O"} & set(told)
    for sample in run.samples:
        sample.update(read_bytes=sample["read_bytes"] // 2, process_read_bytes=0)
    assert "page cache" in found(run, tmp_path / "b"), "what was sampled is judged"


# Long runs, and waits beyond the clock


def test_waits_that_no_clock_counts_are_refused_before_the_run(tmp_path: Path) -> None:
    most = np.array([(1 << 31) - 1, 0], np.int32)
    batch = traces.columns([("w", 0, 2), ("d", 0, 2)], [0, 0], new_tokens=most)
    trace = Trace(traces.write(tmp_path / "t.parquet", batch).path)
    demand = Demand(Pace("closed", token_ms=1e6), 1)
    options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), demand=demand)
    with pytest.raises(InputError, match="smaller `token_ms`"):
        Plan(trace, options)


# The counters themselves


def test_quotas_of_both_kinds_of_cgroups_are_read(tmp_path: Path) -> None:
    one, two, none = (tmp_path / name for name in ("v1", "v2", "none"))
    one.write_text("nr_periods 9\nnr_throttled 3\nthrottled_time 5\n")
    two.write_text("usage_usec 8\nthrottled_usec 7\n")
    none.write_text("usage_usec 8\n")
    assert counters._read_throttled_ns([one, two, none, tmp_path / "gone"]) == 5 + 7000
    assert counters._read_throttled_ns([none]) is None


# Real processes


def test_a_replay_that_was_stopped_is_not_valid(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path, "--duration", "4") as started:
        started.process.send_signal(signal.SIGSTOP)
        time.sleep(2.8)
        started.process.send_signal(signal.SIGCONT)
        assert started.end()[0] == 0
    (paused,) = [doubt for doubt in summarise(started.output).doubts if doubt.kind == "paused"]
    assert paused.invalidates


def test_a_cpu_quota_is_named(endless: Path, tmp_path: Path) -> None:
    """In a control group of either version, of 5% of a core once the replay has begun."""
    (tmp_path / "cache").mkdir()
    places = (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "5000"), ("/sys/fs/cgroup", "cpu.max", "5000 100000"))
    above, name, limit = next(each for each in places if Path(each[0]).exists())
    group = Path(above, f"kv-replay-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs the right to make a cgroup")
    output = tmp_path / "run"
    in_group = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', group / "cgroup.procs")
    replay = (sys.executable, "-m", "replayer", "run", endless, *MODEL, "--workers", 4, "--duration", 3)
    started = Going([*in_group, *replay, *CACHE, tmp_path / "cache", "-o", output], output)
    try:
        started.wait_for(lambda: (info(output).get("clock") or {}).get("zero_ns"))
        (group / name).write_text(limit)
        started.wait_for(lambda: (info(output).get("window") or {}).get("cut_s") or started.process.poll() == 0)
    finally:
        started.kill()
        group.rmdir()
    told = {doubt.kind: doubt.text for doubt in summarise(output).doubts}
    assert "quota" in told["starved"]
    assert "replayer-bound" not in told
