"""The core, built with sanitizers, under oracle tests and runs: `python -m tests.support.sanitizers`.

For each sanitizer a copy of the packages is made in build/sanitize, with the libraries compiled into it. A report ends
the command.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order, load_reference
from replayer.planning.pace import Pace, PlanWindow, Span
from replayer.planning.plan import PlanOptions
from replayer.run.replay import Replay
from replayer.tiers.throttled import Throttle
from tests.support.paths import ROOT
from tests.support.run_settings import settings
from tracegen.schema import Trace

PLACE = ROOT / "build" / "sanitize"
TESTS = (
    "test_core.py test_serving.py policies/test_oracle.py arrangements/test_arrangements.py ordering/test_scheduler.py"
    " tiers/test_slab_tier.py pacing/test_engine.py pacing/test_real_runs.py"
).split()


def build(name: str, *flags: str) -> Path:
    """Copy the packages and compile their libraries; return the copy."""
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("tracegen", "replayer", "analysis", "views", "tests", "docs"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    for extension in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]:
        target = place / (extension["name"].replace(".", "/") + ".abi3.so")
        own = [*extension["extra-compile-args"], "-fno-lto", "-O1", "-Werror", "-fno-omit-frame-pointer"]
        command = ["cc", "-shared", "-fPIC", *own, *flags, *extension["sources"], "-lm", "-o", str(target)]
        subprocess.run(command, check=True, cwd=ROOT)
    return place


def check(place: Path, library: str, arguments: list[str], **options: str) -> None:
    """Run a module of the copy under a sanitizer, whose library must be loaded before all others."""
    path = subprocess.run(["cc", f"-print-file-name={library}"], check=True, capture_output=True, text=True).stdout
    environment = {"LD_PRELOAD": path.strip(), "PYTHONPATH": str(place), "PYTHONMALLOC": "malloc", **options}
    subprocess.run([sys.executable, "-m", *arguments], check=True, cwd=place, env=os.environ | environment)


def race(trace: Path, cache: Path) -> None:
    """Replay a trace in every order and with every way of waiting; Polars does not live with the thread sanitizer."""
    sizes = (Decimal(0), Decimal("0.01"), Decimal("0.05"))
    chosen: tuple[tuple[Order, dict[str, Any]], ...] = (
        (Order("live"), {"pace": Pace(), "layout": "slab"}),
        (load_reference("nvme-7"), {"pace": Pace("closed", 1000), "window": PlanWindow(16)}),
        (Order(), {"pace": Pace("open", 1000), "throttles": {"nvme": Throttle(20, 100)}, "span": Span(0.5, 0.1)}),
    )
    for number, (order, more) in enumerate(chosen):
        of_run = settings(**{"workers": 4, "cache_dir": cache, "verify": "stamps", **more})
        options = PlanOptions(TokenBytes(512), sizes, order=order, demand=of_run.demand)
        result = Replay(Trace(trace), "race", options, of_run, cache / f"run{number}").run()
        assert result.whole.status == "complete", result.whole.reason


def main() -> None:
    """Check the core under both sanitizers."""
    print("address and undefined:", flush=True)
    place = build("address", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    tests = [f"tests/replayer/{test}" for test in TESTS]
    check(
        place, "libasan.so", ["pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider", *tests],
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1",
    )  # fmt: skip
    print("thread:", flush=True)
    place = build("thread", "-fsanitize=thread")
    trace, cache = place / "trace.parquet", place / "cache"
    recipe = ["generate", "smoke", "--requests", "60", "-o", str(trace)]
    subprocess.run([sys.executable, "-m", "tracegen", *recipe], check=True, cwd=ROOT)
    cache.mkdir()
    # Python's locks and Arrow's are not instrumented: only this project's code is of interest.
    options = "ignore_noninstrumented_modules=1:exitcode=66:halt_on_error=1"
    check(place, "libtsan.so", ["tests.support.sanitizers", str(trace), str(cache)], TSAN_OPTIONS=options)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        race(*map(Path, sys.argv[1:]))
    else:
        main()
