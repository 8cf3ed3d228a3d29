"""Replays beside fio, a bare loop, and each other: the replayer must measure the device and not itself."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tests.bench.disks import best, fast_disk, fio, throttled
from tests.bench.measure import PAIRS, run_process, run_tool, show, summarise
from tests.support import traces
from tracegen.generate import generate
from tracegen.recipes.loading import load_recipe

TOKEN = 128 << 10  # bytes of llama3.1-8b


def write_ops(path: Path, size: int, is_read: np.ndarray, key: np.ndarray, gap_ns: int = 1000) -> Path:
    """A trace of these ops on objects of one size, every op a request of its own."""
    ids = np.arange(len(key))
    values: dict[str, Any] = dict.fromkeys(traces.DTYPES, np.zeros(len(key)))
    values |= dict.fromkeys(("op_id", "request_id", "session_id", "user_id"), ids)
    values |= {"time_ns": ids * gap_ns, "op": is_read, "phase": is_read, "key": key}
    values |= dict.fromkeys(("turn", "new_tokens"), np.ones(len(key)))
    values["tokens"] = np.full(len(key), max(1, size // TOKEN))
    batch = {name: np.asarray(values[name]).astype(dtype) for name, dtype in traces.DTYPES.items()}
    return traces.write(path, batch).path


def phased(path: Path, size: int, keys: int, reads: int, gap_ns: int = 1000) -> Path:
    """A trace that writes so many objects of this size, then reads each so often."""
    key = np.tile(np.arange(keys), 1 + reads)
    return write_ops(path, size, np.arange(len(key)) >= keys, key, gap_ns)


@dataclass
class Replay:
    """One run: its log, the summary, CPU seconds of the process, peak MiB, and CPU seconds of the whole machine."""

    log: pl.DataFrame
    summary: dict[str, Any]
    cpu_s: float
    system_s: float
    peak_mib: float

    @classmethod
    def of(cls, trace: Path, out: Path, *flags: object, prefix: Sequence[str] = ()) -> "Replay":
        """Run it in a process of its own."""
        flags = ("--pace", "asap", *flags) if "--pace" not in flags else flags
        flags = ("--model", "llama3.1-8b", "--force", "-o", out, *flags)
        used = run_tool("replayer", "run", trace, *flags, prefix=prefix)
        device = pl.read_parquet(out / "device.parquet")
        system_s = (device["system_cpu"] * device["interval_ns"]).sum() / 1e9
        log = pl.read_parquet(out / "moves" / "*.parquet")
        return cls(log, summarise(out), used.cpu_s, system_s, used.peak_mib)

    @property
    def gb(self) -> float:
        """GB moved."""
        return float(self.log["size_bytes"].sum() / 1e9)


def four_workers(mount: Path) -> tuple[object, ...]:
    """Flags of most replays on a disk."""
    return ("--workers", 4, "--cache-dir", mount / "c")


WANTED = {
    (16 << 20, "slab"): ("0.95", "0.9"), (16 << 20, "files"): ("0.95", "0.8"), (1 << 20, "slab"): ("0.95", "0.85"),
    (1 << 20, "files"): ("-", "-"), (128 << 10, "slab"): ("0.9", "0.8"), (128 << 10, "files"): ("-", "-"),
}  # fmt: skip
"""Of fio's bandwidth: reads, writes."""


def disk(folder: Path) -> None:
    """NVMe-only replays with 4 workers against fio at 4 jobs, on a RAM-backed disk."""
    with fast_disk(folder) as mount:
        for name, size, keys, reads, sizes in (
            ("16 MiB", 16 << 20, 128, 12, ("1M", "4M", "16M")),
            ("1 MiB", 1 << 20, 2000, 8, ("256k", "1M")),
            ("128 KiB", 128 << 10, 8000, 8, ("128k",)),
        ):
            trace = phased(folder / "d.parquet", size, keys, reads)
            print(f"fast disk: objects of {name}, nvme only, 4 workers, not verified")
            for layout in ("slab", "files"):
                runs = []
                for _ in range(PAIRS + 1):
                    flags = (*four_workers(mount), "--layout", layout, "--verify", "off")
                    ours = Replay.of(trace, folder / "run", *flags, *(("--precondition", 3) * (layout == "slab")))
                    runs.append((ours, best(mount, "read", 4, sizes), best(mount, "write", 4, sizes)))
                runs = runs[1:]
                wanted = WANTED[size, layout]
                for side, at in (("read", 1), ("write", 2)):
                    measured = [(run[0].summary[f"nvme_{side}_busy_gib_s"], run[at]) for run in runs]
                    show(f"{layout}: {side} GiB/s against fio psync", measured, "GiB/s", f"at least {wanted[at - 1]}")
        cost(folder, mount)


def cost(folder: Path, mount: Path) -> None:
    """CPU per GB by verification, beyond what fio takes to write and read the same bytes; and memory."""
    keys, size, reads = 128, 16 << 20, 12
    trace = phased(folder / "d.parquet", size, keys, reads)
    written, read = keys * size, keys * reads * size
    fios = statistics.median(_fio_cpu_s(mount, written, read) for _ in range(PAIRS)) / ((written + read) / 1e9)
    start = statistics.median(run_tool("replayer", "plan", trace, "--model", "tiny-1b").cpu_s for _ in range(3))
    print(f"fast disk: objects of 16 MiB; CPU seconds per GB moved beyond fio's {fios:.3f}, planning alone taken off")
    for verify, most in (("off", 0.01), ("stamps", 0.02), ("full", 0.06)):
        flags = (*four_workers(mount), "--verify", verify, "--layout", "slab")
        runs = [Replay.of(trace, folder / "run", *flags) for _ in range(PAIRS)]
        mine = statistics.median((run.cpu_s - start) / run.gb for run in runs)
        print(f"  verify {verify:39} {mine - fios:+10.3f} s (wanted at most +{most})", flush=True)
    run = Replay.of(trace, folder / "run", "--workers", 16, "--cache-dir", mount / "c")
    print(f"  {'peak memory with 16 workers':46} {run.peak_mib:10.0f} MiB (wanted at most 350)")


def _fio_cpu_s(mount: Path, written: int, read: int) -> float:
    """CPU seconds of fio for so many bytes in requests of 1 MiB by 4 jobs, less those of its start."""
    common = ["fio", "--name=x", f"--directory={mount}", "--bs=1M", "--direct=1", "--ioengine=psync", "--numjobs=4"]
    common += ["--group_reporting", f"--size={written // 4}"]
    seconds = run_process(*common, "--rw=write").cpu_s
    return seconds + run_process(*common, "--rw=read", f"--io_size={read // 4}").cpu_s


def requests(folder: Path) -> None:
    """What decides the default of --io-size: read bandwidth by size and depth of requests."""
    trace = phased(folder / "d.parquet", 16 << 20, 64, 16)
    print("fast disk: objects of 16 MiB, 4 workers; read GiB/s by --io-size and --io-depth, median of 3")
    with fast_disk(folder) as mount:
        for size in ("256K", "512K", "1M", "2M", "4M"):
            figures = []
            for depth in (1, 4):
                flags = (*four_workers(mount), "--set", f"io_size={size}", "--io-depth", depth, "--verify", "off")
                runs = [Replay.of(trace, folder / "run", *flags) for _ in range(3)]
                figures.append(statistics.median(run.summary["nvme_read_busy_gib_s"] for run in runs))
            print(f"  {size:6} depth 1 {figures[0]:8.2f}   depth 4 {figures[1]:8.2f}", flush=True)


FAST, SLOW = 470, 100
SPEEDS = ("elapsed_s", "wall_clock_tok_s", "storage_tok_s", "decode_read_gib_s", "nvme_read_gib_s", "nvme_write_gib_s")
SMALL = {"personas.coding.weight": 0, "personas.document.context": [1024, 4096]}
OPTIONS = (
    ("mlperf_option_1", {"users": 8, "requests": 24}, ("--cpu-mem-gb", "0")),
    ("mlperf_option_2", {"users": 24, "requests": 96}, ("--cpu-mem-gb", "0.5", "--decode", "once")),
    ("mlperf_option_3", {"users": 6, "requests": 20}, ("--cpu-mem-gb", "0")),
)


def steady(path: Path, size: int, count: int) -> Path:
    """A trace of one mix from its first op to its last: of each four ops one writes and three read what lies there."""
    ids = np.arange(count)
    is_write, written = ids % 4 == 0, ids // 4
    return write_ops(path, size, ~is_write, np.where(is_write, written, (ids * 7919) % np.maximum(written // 2, 1)))


WHOLE_MIB: Final = {128 << 10: 2200, 1 << 20: 2200, 16 << 20: 6000}
"""Of each object size: large objects need more, because the first and last of them move alone."""


def throttle(folder: Path) -> None:
    """Two devices 4.7 times apart: every speed must differ by the ratio that fio measures."""
    with fast_disk(folder) as mount:
        theirs = _fio_ratio(mount)
        print(f"throttled {FAST} against {SLOW} MiB/s: fio reads {theirs:.3f} times as fast; ours, of that ratio")
        flags: tuple[object, ...] = ("--cpu-mem-gb", "0", "--workers", 8)
        for size, whole in WHOLE_MIB.items():
            trace = steady(folder / "d.parquet", size, (whole << 20) // size)
            apart(f"{size >> 10} KiB, whole", theirs, folder, mount, trace, *flags)
            trace = steady(folder / "d.parquet", size, (12_000 << 20) // size)
            apart(f"{size >> 10} KiB, cut", theirs, folder, mount, trace, *flags, "--duration", 15, "--warmup", "2s")
        for name, changes, more in OPTIONS:
            trace = folder / "o.parquet"
            generate(load_recipe(Path("tracegen/recipes") / f"{name}.toml", SMALL | changes), trace, force=True)
            flags = (*more, "--model", "tiny-1b", "--pace", "closed")
            apart(f"{name}, whole", theirs, folder, mount, trace, *flags, "--duration", "unlimited")
            apart(f"{name}, cut by ops", theirs, folder, mount, trace, *flags, "--duration", "unlimited", "--ops", 100)
        quarter(folder, mount)
        repeats(folder, mount)


def apart(what: str, theirs: float, folder: Path, mount: Path, trace: Path, *flags: object) -> None:
    """How far apart a replay finds the two devices, as a share of fio's ratio; medians of 3 pairs."""
    pairs = [[_throttled(folder, mount, trace, speed, *flags).summary for speed in (FAST, SLOW)] for _ in range(3)]
    found = []
    for name in SPEEDS:
        ratios = [fast[name] / slow[name] for fast, slow in pairs if fast[name] and slow[name]]
        ratio = statistics.median(ratios) if ratios else float("nan")
        if name != "elapsed_s" or "--warmup" not in flags:
            found.append(f"{name} {(1 / ratio if name == 'elapsed_s' else ratio) / theirs:.3f}")
    print(f"  {what:28} {', '.join(found)} (wanted 0.98 to 1.02)", flush=True)


def _fio_ratio(mount: Path) -> float:
    bandwidth: dict[float, list[float]] = {FAST: [], SLOW: []}
    for speed in (FAST, SLOW) * 3:
        with throttled(mount, speed) as prefix:
            report = fio(mount, "read", "1M", 4, "--size=64M", "--time_based", "--runtime=10", prefix=prefix)
            bandwidth[speed].append(report["bw_bytes"])
    return statistics.median(bandwidth[FAST]) / statistics.median(bandwidth[SLOW])


def _throttled(folder: Path, mount: Path, trace: Path, speed: float, *flags: object) -> Replay:
    with throttled(mount, speed) as prefix:
        return Replay.of(trace, folder / "run", *four_workers(mount), "--layout", "slab", *flags, prefix=prefix)


def quarter(folder: Path, mount: Path) -> None:
    """The RAM-backed disk as it is, against the same limited to a quarter of fio's figure."""
    trace = phased(folder / "d.parquet", 16 << 20, 64, 15)
    limit = best(mount, "read", 4, ("1M", "4M")) * 1024 / 4
    measured = []
    for _ in range(PAIRS):
        fast = Replay.of(trace, folder / "run", *four_workers(mount), "--layout", "slab")
        slow = _throttled(folder, mount, trace, limit)
        name = "nvme_read_busy_gib_s"
        theirs = best(mount, "read", 4, ("1M", "4M")) * 1024 / limit
        measured.append((fast.summary[name] / slow.summary[name], theirs))
    show("fast disk: unlimited against a quarter, reads", measured, "times", "0.9 to 1.1")


def repeats(folder: Path, mount: Path) -> None:
    """Five trials on a throttled device: nothing but time may vary, and that little."""
    trace = phased(folder / "d.parquet", 1 << 20, 400, 9)
    runs = [_throttled(folder, mount, trace, FAST).summary for _ in range(5)]
    elapsed = [run["elapsed_s"] for run in runs]
    print("throttled: five repeats")
    variation = statistics.stdev(elapsed) / statistics.mean(elapsed)
    print(f"  {'coefficient of variation of elapsed_s':46} {variation:10.3%} (wanted under 1%)")
    counts = {name for name, value in runs[0].items() if isinstance(value, int) and not name.startswith("device_")}
    unlike = [name for name in counts if len({run[name] for run in runs}) > 1]
    print(f"  {'counts and bytes that differ':46} {len(unlike):10} of {len(counts)} (wanted 0)")


def null(folder: Path) -> None:
    """What the replayer itself costs, and whether its memory grows."""
    print("null tier: 16 workers, end to end from the process's start to its end")
    for millions in (1, 5):
        path = folder / "p.parquet"
        recipe = load_recipe(None, {"mix.personas": 1, "users": 1000, "requests": 95_000 * millions})
        ops = generate(recipe, path, force=True).counts["ops"]
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
    """Lateness of requests at half the null tier's capacity against a bare sleep loop; and beyond capacity."""
    count = 60_000
    trace = phased(folder / "o.parquet", TOKEN, count // 10, 9, gap_ns=100_000)
    flags = ("--layout", "null", "--workers", 16)
    capacity = count / Replay.of(trace, folder / "run", *flags).summary["elapsed_s"]
    measured = []
    for _ in range(PAIRS + 1):
        half = Replay.of(trace, folder / "run", *flags, "--pace", "open", "--speedup", capacity / 2 / 10_000)
        measured.append((half.summary["lateness_p99_ms"], _sleep_loop(20_000, 2 / capacity)))
    print(f"open loop: null tier, 16 workers, capacity {capacity:,.0f} requests/s")
    ours, theirs = (statistics.median(side) for side in zip(*measured[1:], strict=True))
    print(f"  {'P99 lateness at half of it':46} {ours:10.3f} ms against {theirs:.3f} ms of a bare sleep loop")
    print(f"  {'':46} {ours - theirs:10.3f} ms more (wanted at most 0.2)")
    over = Replay.of(trace, folder / "run", *flags, "--pace", "open", "--speedup", capacity * 2 / 10_000)
    late = over.log.sort("op_id")["start_ns"] - over.log.sort("op_id")["due_ns"]
    first, last = late[: count // 10].mean(), late[-count // 10 :].mean()
    print(f"  {'lateness at twice of it, first and last tenth':46} {first / 1e6:10.1f} and {last / 1e6:.1f} ms")


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
