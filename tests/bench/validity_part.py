"""How much the order of the plan matters: one load under every order, beside placement that is decided live."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.measure import make_trace, run_tool, show_row, summarise
from tests.support.run_json import run_json

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


HEADS = ("load", "DRAM GiB", "order", "hits cpu", "hits nvme", "misses", "NVMe GiB", "in flight", "tok/s",
         "TTFB P95 ms", "order wait")  # fmt: skip


def validity(folder: Path) -> None:
    """The table of docs/validity.md."""
    print(f"orders of the plan, tiny-1b, pace closed, a simulated drive of {DEVICE}, layout null")
    show_row(*HEADS)
    for case in CASES:
        path = folder / "v.parquet"
        make_trace(path, case.recipe, case.changes)
        for capacity in case.capacities:
            for order in ORDERS:
                how = ("--placement", "live") if order == "live" else ("--order", order)
                flags = ("--model", "tiny-1b", "--layout", "null", "--throttle", DEVICE, "--pace", "closed", "--force")
                flags += ("--duration", "unlimited", *how, "--cpu-mem-gb", capacity, *case.flags)
                run_tool("replayer", "run", path, *flags, "-o", folder / "run")
                found = summarise(folder / "run")
                executed = run_json(folder / "run")["executed"]
                moved = found["nvme_read_bytes"] + found["nvme_write_bytes"]
                show_row(
                    case.name, capacity, order.removeprefix("reference:"),
                    *(f"{count:,}" for count in (executed["hits"]["cpu"], executed["hits"]["nvme"], executed["misses"])),
                    f"{moved / 2**30:.2f}", f"{found['mean_inflight']:.1f}", f"{found['wall_clock_tok_s']:,.0f}",
                    f"{found['ttfb_p95_ms']:,.0f}", f"{found['order_wait_share']:.1%}",
                )  # fmt: skip
