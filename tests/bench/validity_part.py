"""How much the order of the plan matters: one load under every order, beside placement that is decided live."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracegen.generate import generate
from tracegen.recipes.loading import load_recipe

DEVICE = "nvme=3000,80us"  # MiB/s; simulated, so that every order meets the same drive
ORDERS = ("trace", "reference:nvme-0.5", "reference:nvme-2", "reference:nvme-7", "live")
SMALL = {"personas.coding.weight": 0, "personas.document.context": [1024, 4096]}


@dataclass(frozen=True)
class Case:
    """A load, small enough for seconds: a shipped recipe with changes, and flags of the replay."""

    name: str
    recipe: str
    changes: dict[str, Any]
    capacities: tuple[str, str]  # of the cpu tier, GiB
    flags: tuple[str, ...] = ()


CASES = (
    Case("MLPerf 1 with DRAM", "mlperf_option_1", {"users": 48, "requests": 144} | SMALL, ("0.25", "1")),
    Case("MLPerf 2", "mlperf_option_2", {"users": 24, "requests": 96} | SMALL, ("0.25", "1")),
    Case("MLPerf 3 with DRAM", "mlperf_option_3", {"users": 16, "requests": 80} | SMALL, ("0.25", "1")),
    Case("chat", "chat", {"users": 32, "requests": 256}, ("0.5", "2"), ("--speedup", "30")),
    Case("agentic", "agentic", {"users": 6, "requests": 24}, ("0.5", "2"), ("--speedup", "30", "--decode", "once")),
    Case("RAG", "rag", {"users": 32, "requests": 256, "rag.ingest_s": 5}, ("0.25", "1"), ("--speedup", "30")),
)


def validity(folder: Path) -> None:
    """The table of docs/validity.md."""
    print(f"orders of the plan, tiny-1b, pace closed, a simulated drive of {DEVICE}, layout null")
    print(
        "| load | DRAM GiB | order | hits cpu | hits nvme | misses | NVMe GiB | in flight | tok/s | TTFB P95 ms | order wait |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        path = folder / "v.parquet"
        recipe = load_recipe(Path("tracegen/recipes") / f"{case.recipe}.toml", case.changes)
        generate(recipe, path, force=True)
        for capacity in case.capacities:
            for order in ORDERS:
                found = _replayed(path, folder / "run", order, "--cpu-mem-gb", capacity, *case.flags)
                gib = (found["nvme_read_bytes"] + found["nvme_write_bytes"]) / 2**30
                figures = (
                    f"{found['cpu_hits']:,} | {found['nvme_hits']:,} | {found['misses']:,} | {gib:.2f} |"
                    f" {found['mean_inflight']:.1f} | {found['wall_clock_tok_s']:,.0f} | {found['ttfb_p95_ms']:,.0f} |"
                    f" {found['order_wait_share']:.1%}"
                )
                print(f"| {case.name} | {capacity} | {order.removeprefix('reference:')} | {figures} |", flush=True)


def _replayed(trace: Path, out: Path, order: str, *flags: str) -> dict[str, Any]:
    """The summary of a replay."""
    how = ("--placement", "live") if order == "live" else ("--order", order)
    command = [
        sys.executable,
        "-P",
        "-m",
        "replayer",
        "run",
        str(trace),
        "--model",
        "tiny-1b",
        "--layout",
        "null",
        "--force",
    ]
    command += ["--throttle", DEVICE, "--pace", "closed", "--duration", "unlimited", *how, *flags, "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    shown = [sys.executable, "-P", "-m", "analysis", "summary", str(out), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)
    return found
