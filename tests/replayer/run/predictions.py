"""Predictions of small traces, as a user types the command."""

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from replayer.schema import parts
from tests.support.command_line import here
from tests.support.paths import ROOT

DRIVE = ROOT / "tests" / "data" / "predictions" / "drive.toml"
GOLDEN = DRIVE.with_name("golden.json")
MODEL = ("--model", "tiny-1b")
LOADS: dict[str, tuple[str, ...]] = {
    "closed": ("--cpu-mem-gb", "0.05", "--pace", "closed", "--speedup", "200"),
    "open": ("--cpu-mem-gb", "0.05", "--pace", "open", "--speedup", "2000", "--order", "reference"),
    "asap": ("--cpu-mem-gb", "0.05", "--pace", "asap", "--workers", "6", "--arrangement", "lmcache"),
}


def make_trace(path: Path) -> Path:
    """A few thousand ops with reuse, of four users, decode reads included."""
    words = ("--users", "4", "--requests", "200", "--set", "seed=7", "--decode-reads")
    assert here("tracegen", "generate", "chat", *words, "-o", path).returncode == 0
    return path


def predict(trace: Path, output: Path, *flags: object, profile: object = DRIVE) -> dict[str, Any]:
    """The run.json of a prediction that completes."""
    done = here("replayer", "predict", trace, *MODEL, "--profile", profile, *flags, "-o", output, "--json")
    assert done.returncode == 0, done.stderr
    info: dict[str, Any] = json.loads(done.stdout)
    assert info == json.loads((output / "run.json").read_text())
    return info


def log_of(run: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(run))


def digest_of(run: Path) -> str:
    """A hash of the log's values, whatever wrote them to Parquet."""
    text = log_of(run).write_csv()
    return hashlib.sha256(text.encode()).hexdigest()
