"""The planner and replays beside a bare read and bare loops: the replayer must measure the device and not itself."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.bench.measure import PAIRS, elapsed, make_trace, run_tool, show, summarise
from tests.support import traces
from tracegen.schema import Fingerprint, Trace

TOKEN = 128 << 10  # bytes of llama3.1-8b
PERSONAS = {"mix.personas": 1, "users": 1000}


def phased(path: Path, size: int, keys: int, reads: int, gap_ns: int = 1000) -> Path:
    """A trace that writes so many objects of this size, then reads each so often; every op is a request of its own."""
    key = np.tile(np.arange(keys), 1 + reads)
    ids = np.arange(len(key))
    is_read = ids >= keys
    values: dict[str, Any] = dict.fromkeys(traces.DTYPES, np.zeros(len(key)))
    values |= dict.fromkeys(("op_id", "request_id", "session_id", "user_id"), ids)
    values |= {"time_ns": ids * gap_ns, "op": is_read, "phase": is_read, "key": key}
    values |= dict.fromkeys(("turn", "new_tokens"), np.ones(len(key)))
    values["tokens"] = np.full(len(key), max(1, size // TOKEN))
    batch = {name: np.asarray(values[name]).astype(dtype) for name, dtype in traces.DTYPES.items()}
    return traces.write(path, batch).path


@dataclass
class Replay:
    """One run in a process of its own: its log, its summary, and the peak MiB of the process."""

    log: pl.DataFrame
    summary: dict[str, Any]
    peak_mib: float

    @classmethod
    def of(cls, trace: Path, out: Path, *flags: object) -> "Replay":
        flags = ("--pace", "asap", *flags) if "--pace" not in flags else flags
        flags = ("--model", "llama3.1-8b", "--force", "-o", out, *flags)
        used = run_tool("replayer", "run", trace, *flags)
        return cls(pl.read_parquet(out / "moves" / "*.parquet"), summarise(out), used.peak_mib)


def planner(folder: Path) -> None:
    """`replayer plan` of a long trace as a whole process, against reading and hashing the same trace alone."""
    path = folder / "p.parquet"
    ops = make_trace(path, None, PERSONAS | {"requests": 950_000})
    tiers = ("--gpu-mem-gb", "2", "--cpu-mem-gb", "16", "--storage-capacity-gb", "100", "--model", "tiny-1b")

    def read() -> None:
        fingerprint = Fingerprint()
        for batch in Trace(path).batches(1 << 18):
            fingerprint.update(batch)

    print(f"replayer plan, {ops:,} persona ops of 1,000 users, three bounded tiers, from start to end of the process")
    for order, wanted in (("trace", "8"), ("reference", "30")):
        command = ("replayer", "plan", path, *tiers, "--order", order, "--json")
        measured = [(run_tool(*command).seconds, elapsed(read)) for _ in range(4)]
        # The first pair brings the trace into the page cache.
        show(f"--order {order}, against reading and hashing", measured[1:], "s", f"at most {wanted} s")


def null(folder: Path) -> None:
    """What the replayer itself costs, and whether its memory grows."""
    print("null tier: 16 workers, end to end from the process's start to its end")
    for millions in (1, 5):
        path = folder / "p.parquet"
        ops = make_trace(path, None, PERSONAS | {"requests": 95_000 * millions})
        began = time.perf_counter()
        run = Replay.of(path, folder / "run", "--layout", "null", "--workers", 16, "--model", "tiny-1b")
        spent = time.perf_counter() - began
        rate = len(run.log) / run.summary["elapsed_s"]
        print(
            f"  {ops:>12,} ops: {rate:10,.0f} moves/s while running, {ops / spent:,.0f} with planning and summary"
            f" (wanted 500,000); peak {run.peak_mib:.0f} MiB",
            flush=True,
        )


def openloop(folder: Path) -> None:
    """Lateness of requests at half the null tier's capacity against a bare sleep loop."""
    count = 60_000
    trace = phased(folder / "o.parquet", TOKEN, count // 10, 9, gap_ns=100_000)
    flags = ("--layout", "null", "--workers", 16)
    capacity = count / Replay.of(trace, folder / "run", *flags).summary["elapsed_s"]
    half = ("--pace", "open", "--speedup", capacity / 2 / 10_000)
    print(f"open loop: null tier of {capacity:,.0f} ops/s, offered half of it")
    measured = []
    for _ in range(PAIRS):
        run = Replay.of(trace, folder / "run", *flags, *half)
        measured.append((run.summary["lateness_p99_ms"], _sleep_loop(20_000, 2 / capacity)))
    show("P99 of lateness, against a sleep loop", measured, "ms", "at most 0.2 ms more")


def _sleep_loop(count: int, gap_s: float) -> float:
    """P99 in ms of how late a loop wakes that sleeps until each of so many times."""
    began, late = time.perf_counter(), []
    for i in range(count):
        due = began + i * gap_s
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        late.append(time.perf_counter() - due)
    return float(np.quantile(late, 0.99) * 1e3)


def gpu(folder: Path) -> None:
    """Copies of the gpu tier against torch's own pinned copies."""
    import torch

    size, copies = 64 << 20, 50
    device = torch.empty(size, dtype=torch.uint8, device="cuda")
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def gib_s(target: Any, source: Any) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(copies):
            target.copy_(source, non_blocking=True)
        end.record()
        end.synchronize()
        return copies * size / 2**30 / (begin.elapsed_time(end) / 1e3)

    trace = phased(folder / "g.parquet", 64 << 20, 32, 20)
    measured: dict[str, list[tuple[float, float]]] = {"read": [], "write": []}
    for _ in range(PAIRS + 1):
        flags = ("--gpu-mem-gb", 8, "--storage-capacity-gb", 0, "--workers", 1)
        flags += ("--set", "io_size=64M", "--verify", "off")
        log = Replay.of(trace, folder / "run", *flags).log
        for side, theirs in (("read", gib_s(host, device)), ("write", gib_s(device, host))):
            rows = log.filter(pl.col(f"device_{side}_ns") > 0)
            ours = rows["size_bytes"].sum() / 2**30 / (rows[f"device_{side}_ns"].sum() / 1e9)
            measured[side].append((ours, theirs))
    print(f"gpu: {torch.cuda.get_device_name()}, one worker, copies of 64 MiB, on CUDA's clock")
    show("device to host GiB/s against torch", measured["read"][1:], "GiB/s", "at least 0.9")
    show("host to device GiB/s against torch", measured["write"][1:], "GiB/s", "at least 0.9")
    run = Replay.of(
        trace, folder / "run", "--gpu-mem-gb", 1, "--cpu-mem-gb", 1, "--cache-dir", folder, "--verify", "full"
    )
    print(f"  three tiers, every byte verified: {'valid' if run.summary['valid'] else 'NOT VALID'}")
