"""The core, built with sanitizers, under oracle tests and runs: `python -m tests.support.sanitizers`.

For each sanitizer a copy of the packages is made in build/sanitize, with the libraries compiled into it. A report ends
the command.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.paths import ROOT

PLACE = ROOT / "build" / "sanitize"
TESTS = (
    "test_core.py policies/test_oracle.py arrangements/test_arrangements.py ordering/test_copies.py"
    " tiers/test_slab_tier.py pacing/test_engine.py pacing/test_real_runs.py"
).split()
RUNS = (
    "--pace asap --order live --layout slab",
    "--pace closed --speedup 1000 --arrangement vllm --window 64",
    "--pace open --speedup 1000 --throttle nvme=200 --duration 1 --drain 1",
)


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
    recipe = ["generate", "smoke", "--requests", "20", "-o", str(trace)]
    subprocess.run([sys.executable, "-m", "tracegen", *recipe], check=True, cwd=ROOT)
    cache.mkdir()
    tiers = f"--model tiny-1b --workers 4 --cpu-mem-gb 0.02 --verify off --cache-dir {cache}".split()
    for number, flags in enumerate(RUNS):
        run = ["replayer", "run", str(trace), *tiers, "-o", str(place / f"run{number}"), *flags.split()]
        # Python's locks and Arrow's are not instrumented: only this project's code is of interest.
        check(place, "libtsan.so", run, TSAN_OPTIONS="ignore_noninstrumented_modules=1:exitcode=66:halt_on_error=1")


if __name__ == "__main__":
    main()
