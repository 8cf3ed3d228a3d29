"""Making and planning traces: tokenizer, generator, planner."""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np

from replayer.model import find
from replayer.plan import Plan, PlanOptions, simulate
from tests import traces
from tests.bench.measure import elapsed, pairs, show


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
