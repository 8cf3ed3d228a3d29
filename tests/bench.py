"""`make bench`: each figure beside its reference, measured in turn in one run. Nothing here gates anything.

python -m tests.bench [tokenizer] [generator] [planner] [disk]
"""

import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np

from replayer.model import find
from replayer.plan import Plan, PlanOptions, simulate
from tests import traces

PAIRS = 5


def pairs(ours: Callable[[], float], reference: Callable[[], float], count: int = PAIRS) -> list[tuple[float, float]]:
    """Measure both in turn; one pair to warm up is thrown away."""
    return [(ours(), reference()) for _ in range(count + 1)][1:]


def show(what: str, measured: list[tuple[float, float]], unit: str, target: str) -> None:
    """The median of each side and of the ratio, pair by pair."""
    mine, theirs = (statistics.median(side) for side in zip(*measured, strict=True))
    ratio = statistics.median(a / b for a, b in measured)
    print(f"  {what:46} {mine:10.3f} {unit} against {theirs:10.3f}: ratio {ratio:.2f} (wanted {target})", flush=True)


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tokenizer(folder: Path) -> None:
    """`tracegen generate` against the tokenizer library alone, on the same texts."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from tracegen.tokens import ALIASES, bundled

    source, rng = folder / "chats.json", random.Random(1)
    words = [line.split() for line in Path("README.md").read_text().splitlines() if line]
    pool = [" ".join(line) for line in words]
    chats = [
        {
            "id": f"chat{i}_0",
            "conversations": [
                {"from": role, "value": " ".join(rng.choices(pool, k=rng.randint(2, 12)))}
                for role in ("human", "gpt") * 4
            ],
        }
        for i in range(4000)
    ]
    source.write_text(json.dumps(chats, ensure_ascii=False))
    texts = [turn["value"] for chat in chats for turn in chat["conversations"]]

    def library() -> None:
        encode = Tekkenizer.from_file(bundled()[ALIASES["tekken"]]).encode
        for text in texts:
            encode(text, bos=False, eos=False)

    def ours() -> None:
        command = ["tracegen", "generate", "--sharegpt", source, "-o", folder / "chats.parquet", "--force"]
        subprocess.run([sys.executable, "-m", *map(str, command)], check=True, stdout=subprocess.DEVNULL)

    print(f"tokenizer: {source.stat().st_size / 1e6:.0f} MB of conversations")
    show("generate, as a command", pairs(lambda: elapsed(ours), lambda: elapsed(library)), "s", "at most 1.3")


def planner(folder: Path) -> None:
    """Moves per second with both tiers bounded, against filling an OrderedDict, the least an LRU can cost."""
    from collections import OrderedDict

    rng, count = np.random.Generator(np.random.Philox(1)), 500_000
    new = rng.integers(0, 2, count) == 0
    new[0] = True
    key = np.where(new, np.cumsum(new) - 1, 0)
    known = np.cumsum(new)
    key = np.where(new, key, np.maximum(known - 1 - rng.integers(0, 2000, count), 0))
    tokens = np.concatenate([[1], rng.integers(1, 200, known[-1])])[key]
    batch = traces.columns([("w", 0, 1)])
    batch = {name: np.zeros(count, column.dtype) for name, column in batch.items()}
    ids = np.arange(count)
    batch |= {"op_id": ids, "request_id": ids, "session_id": ids, "user_id": ids, "time_ns": ids, "key": key}
    batch |= {
        "tokens": tokens.astype(np.int32),
        "op": np.where(new, 0, 1).astype(np.uint8),
        "turn": np.ones(count, np.int32),
    }
    trace = traces.write(folder / "moves.parquet", batch)
    options = PlanOptions(find("tiny-1b").sizes("fp16", 1), (Decimal(0), Decimal(2), Decimal(4)))

    def ours() -> float:
        began = time.perf_counter()
        planned = simulate(Plan(trace, options), lambda _: None)
        counts = [*planned["hits"].values(), *planned["stores"].values(), *planned["demotions"].values()]
        return (sum(counts) + planned["misses"] + planned["drops"]) / (time.perf_counter() - began)

    def reference() -> float:
        began, lru = time.perf_counter(), OrderedDict[int, None]()
        for one in key.tolist():
            lru[one] = None
            lru.move_to_end(one)
            if len(lru) > 1000:
                lru.popitem(last=False)
        return count / (time.perf_counter() - began)

    print(f"planner: {count:,} ops, cpu and nvme bounded (wanted: at least 500,000 moves per second)")
    show("moves/s against OrderedDict touches/s", pairs(ours, reference), "/s", "-")


def generator(folder: Path, requests: int = 200_000) -> None:
    """`tracegen generate` on one core against hashing and writing the same ops alone; import against parsing alone."""
    from tracegen.blocks import ImportOptions
    from tracegen.exchange import Output, import_trace
    from tracegen.generate import generate
    from tracegen.schema import Metadata, Trace
    from tracegen.settings import load
    from tracegen.writer import TraceWriter

    print("tracegen, one core")
    path, recipe = folder / "t.parquet", load(None, {"mix.personas": 1, "users": 1000, "requests": requests})
    ops = generate(recipe, path, force=True, quiet=True).counts["ops"]
    made = list(Trace(path).batches())

    def write() -> None:
        with TraceWriter(path, Metadata(0, {}, ""), force=True) as writer:
            for batch in made:
                writer.write(batch)

    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        measured = pairs(
            lambda: elapsed(lambda: generate(recipe, path, force=True, quiet=True)), lambda: elapsed(write)
        )
        show(f"{ops / 1e6:.1f} M ops of personas", measured, "s", "the writer's floor: 1")
        rate = ops / statistics.median(ours for ours, _ in measured) / 1e6
        print(f"  {'':46} {rate:10.3f} M ops/s (wanted >= 1)")
        file = Path("traces/mooncake_excerpt.jsonl")
        rows = file.read_text()
        measured = pairs(
            lambda: elapsed(
                lambda: import_trace("mooncake", [file], ImportOptions(), Output(path, force=True, quiet=True))
            ),
            lambda: elapsed(lambda: [json.loads(row) for row in rows.splitlines()]),
        )
        show("import of 600 Mooncake requests, json alone", measured, "s", "seconds for all 12,031")
    finally:
        os.sched_setaffinity(0, everywhere)


@contextlib.contextmanager
def fast_disk(folder: Path, gib: int = 6) -> Iterator[Path]:
    """ext4 with O_DIRECT on a loop device over RAM."""
    ram, mount = folder / "ram", folder / "disk"
    ram.mkdir()
    mount.mkdir()
    run = lambda *command: subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout  # noqa: E731
    run("mount", "-t", "tmpfs", "-o", f"size={gib + 1}g", "none", ram)
    try:
        run("truncate", "-s", f"{gib}G", ram / "disk.img")
        loop = run("losetup", "-f", "--show", "--direct-io=on", ram / "disk.img").strip()
        try:
            run("mkfs.ext4", "-q", "-F", loop)
            run("mount", loop, mount)
            try:
                yield mount
            finally:
                run("umount", mount)
        finally:
            run("losetup", "-d", loop)
    finally:
        run("umount", ram)


def fio(mount: Path, kind: str, jobs: int) -> float:
    """Best direct bandwidth of fio at so many jobs over a few block sizes, in GiB/s."""
    best = 0.0
    for size in ("1M", "4M", "16M"):
        command = [
            "fio",
            "--name=x",
            f"--directory={mount}",
            f"--rw={kind}",
            f"--bs={size}",
            "--direct=1",
            "--size=512M",
        ]
        command += [
            "--ioengine=psync",
            f"--numjobs={jobs}",
            "--group_reporting",
            "--output-format=json",
            "--time_based",
        ]
        out = subprocess.run(
            [*command, "--runtime=2", "--loops=100"], check=True, capture_output=True, text=True
        ).stdout
        best = max(best, json.loads(out)["jobs"][0][kind]["bw_bytes"] / 2**30)
    return best


def disk(folder: Path, chunk: str = "") -> None:
    """An NVMe-only replay of objects of 16 MiB and more with 4 workers, against fio at 4 jobs, on a RAM-backed disk."""
    steps: list[traces.Step] = []
    sizes = [128 + 16 * (key % 9) for key in range(96)]  # 16 to 32 MiB for llama3.1-8b
    for key, tokens in enumerate(sizes):
        steps += [("w", key, tokens)] + [("d", key, tokens)] * 12
    trace = traces.write(folder / "big.parquet", traces.columns(steps, [i // 13 for i in range(len(steps))]))
    figures: list[tuple[float, float]] = []
    rest: list[tuple[float, float]] = []
    with fast_disk(folder) as mount:
        for trial in range(PAIRS + 1):
            out = folder / f"run{trial}"
            command = [sys.executable, "-m", "replayer", "run", trace.path, "--model", "llama3.1-8b", "--workers", 4]
            command += ["--cache-dir", mount / "cache", "-o", out, "--json"]
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0
            read, cpu = judge(out, usage)
            figures.append((read, fio(mount, "read", 4)))
            rest.append((cpu, usage.ru_maxrss / 1024))
    print("fast disk: nvme only, 4 workers, objects of 16 to 32 MiB, stamps verified")
    show("read GiB/s while reading, against fio psync", figures[1:], "GiB/s", "at least 0.7")
    cpu, memory = (statistics.median(side) for side in zip(*rest[1:], strict=True))
    print(f"  {'CPU seconds per GB moved, whole process':46} {cpu:10.3f} s (wanted at most 0.10)")
    print(f"  {'peak memory':46} {memory:10.0f} MiB (wanted under 600)")


def judge(run: Path, usage: object) -> tuple[float, float]:
    """(GiB/s of reads over the time in which any worker was reading, CPU seconds per GB moved)."""
    import polars as pl

    moves = pl.read_parquet(run / "moves" / "*.parquet")
    reads = moves.filter(pl.col("from_tier").is_not_null()).sort("start_ns")
    busy, end = 0, 0
    for start, stop in reads.select("start_ns", "end_ns").iter_rows():
        busy += max(0, stop - max(start, end))
        end = max(end, stop)
    cpu = usage.ru_utime + usage.ru_stime  # type: ignore[attr-defined]
    return reads["size_bytes"].sum() / 2**30 / (busy / 1e9), cpu / (moves["size_bytes"].sum() / 1e9)


def main() -> None:
    """Run the benchmarks named, or all."""
    wanted = sys.argv[1:] or ["tokenizer", "generator", "planner", "disk"]
    with tempfile.TemporaryDirectory() as name:
        for what in wanted:
            if what == "disk" and (os.geteuid() != 0 or shutil.which("fio") is None):
                print("fast disk: skipped, it needs root and fio")
                continue
            parts = {"tokenizer": tokenizer, "generator": generator, "planner": planner, "disk": disk}
            parts[what](Path(name))


if __name__ == "__main__":
    main()
