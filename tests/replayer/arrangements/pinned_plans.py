"""Fingerprints of the plans of every shipped arrangement, on two traces that ship with the tool."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import replayer
from replayer.arrangements.loading import shipped_names
from tests.support.imports import EXCERPT, imported
from tests.support.paths import DEMO, ROOT
from tracegen.generate import generate
from tracegen.recipes.loading import load_recipe
from tracegen.schema import Trace

PINNED = ROOT / "tests" / "data" / "arrangement_plans.json"
SIZES = {"mooncake": (8, 16, 30), "demo": (0.02, 0.1, 0.2)}
"""GiB of gpu, cpu and nvme: each evicts, and each serves."""


def make_traces(folder: Path) -> dict[str, Trace]:
    """Return a trace of blocks and a trace of conversations with answers."""
    demo = folder / "demo.parquet"
    generate(load_recipe(DEMO, {}), demo)
    return {"mooncake": imported("mooncake", EXCERPT, folder / "mooncake.parquet"), "demo": Trace(demo)}


def plan_fingerprints(name: str, traces: dict[str, Trace]) -> dict[str, str]:
    """Return the fingerprint of the plan of each trace, in the trace's order."""
    return {
        trace: replayer.plan(
            traces[trace], model="tiny-1b", gpu_mem_gb=gpu, cpu_mem_gb=cpu, storage_capacity_gb=nvme,
            order="trace", arrangement=name, decode="reread",
        ).summary.plan_fingerprint
        for trace, (gpu, cpu, nvme) in SIZES.items()
    }  # fmt: skip


def main() -> None:
    with TemporaryDirectory() as folder:
        traces = make_traces(Path(folder))
        plans = {name: plan_fingerprints(name, traces) for name in shipped_names()}
    PINNED.write_text(json.dumps(plans, indent=1) + "\n")


if __name__ == "__main__":
    main()
