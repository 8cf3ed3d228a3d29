"""Making and planning traces: tokenizer, generator, planner."""

import json
import os
import random
import statistics
from pathlib import Path

from tests.bench.measure import elapsed, pairs, run_tool, show


def tokenizer(folder: Path) -> None:
    """`tracegen generate` against the tokenizer library alone, on the same texts."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from tracegen.sources.tokenizers import ALIASES, list_bundled

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
        encode = Tekkenizer.from_file(list_bundled()[ALIASES["tekken"]]).encode
        for text in texts:
            encode(text, bos=False, eos=False)

    def ours() -> None:
        run_tool("tracegen", "generate", "--sharegpt", source, "-o", folder / "chats.parquet", "--force")

    print(f"tokenizer: {source.stat().st_size / 1e6:.0f} MB of conversations")
    show("generate, as a command", pairs(lambda: elapsed(ours), lambda: elapsed(library)), "s", "at most 1.3")


def planner(folder: Path, requests: int = 950_000) -> None:
    """`replayer plan` of a long trace as a whole process, against reading and hashing the same trace alone."""
    from tracegen.generate import generate
    from tracegen.recipes.loading import load_recipe
    from tracegen.schema import Fingerprint, Trace

    path = folder / "p.parquet"
    recipe = load_recipe(None, {"mix.personas": 1, "users": 1000, "requests": requests})
    ops = generate(recipe, path, force=True).counts["ops"]
    tiers = ("--gpu-mem-gb", "2", "--cpu-mem-gb", "16", "--storage-capacity-gb", "100", "--model", "tiny-1b")

    def plan(order: str) -> float:
        return run_tool("replayer", "plan", path, *tiers, "--order", order, "--json").seconds

    def read() -> float:
        def whole() -> None:
            fingerprint = Fingerprint()
            for batch in Trace(path).batches(1 << 18):
                fingerprint.update(batch)

        return elapsed(whole)

    print(f"replayer plan, {ops:,} persona ops of 1,000 users, three bounded tiers, from start to end of the process")
    for order, wanted in (("trace", "8"), ("reference", "30")):
        measured = pairs(lambda order=order: plan(order), read, 5 if order == "trace" else 3)  # type: ignore[misc]
        show(f"--order {order}, against reading and hashing", measured, "s", f"at most {wanted} s")


def generator(folder: Path, requests: int = 200_000) -> None:
    """`tracegen generate` on one core against hashing and writing the same ops alone; import against parsing alone."""
    from tracegen.exchange.convert import import_trace
    from tracegen.exchange.options import ImportOptions
    from tracegen.generate import generate
    from tracegen.outputs import TraceOutput
    from tracegen.recipes.loading import load_recipe
    from tracegen.schema import Metadata, Trace
    from tracegen.trace.writing import TraceWriter

    print("tracegen, one core")
    path, recipe = folder / "t.parquet", load_recipe(None, {"mix.personas": 1, "users": 1000, "requests": requests})
    ops = generate(recipe, path, force=True).counts["ops"]
    made = list(Trace(path).batches())

    def write() -> None:
        with TraceWriter(path, Metadata(0, {}, ""), force=True) as writer:
            for batch in made:
                writer.write(batch)

    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        measured = pairs(lambda: elapsed(lambda: generate(recipe, path, force=True)), lambda: elapsed(write))
        show(f"{ops / 1e6:.1f} M ops of personas", measured, "s", "the writer's floor: 1")
        rate = ops / statistics.median(ours for ours, _ in measured) / 1e6
        print(f"  {'':46} {rate:10.3f} M ops/s (wanted >= 1)")
        file = Path("traces/mooncake_excerpt.jsonl")
        rows = file.read_text()
        measured = pairs(
            lambda: elapsed(lambda: import_trace("mooncake", [file], ImportOptions(), TraceOutput(path, force=True))),
            lambda: elapsed(lambda: [json.loads(row) for row in rows.splitlines()]),
        )
        show("import of 600 Mooncake requests, json alone", measured, "s", "seconds for all 12,031")
    finally:
        os.sched_setaffinity(0, everywhere)
