"""Runs under an arrangement: run.json records its rules, and they suffice to plan the run again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.loading import load_arrangement, parse_arrangement, shipped_names
from replayer.options.recorded import read_options
from replayer.planning.plan import Plan
from replayer.schema import read_run
from tests.replayer.run.replays import ORDERS, go, options
from tests.support import traces
from tests.support.command_line import here, sentence
from tests.support.run_json import run_json, save_run_json
from tracegen.schema import Trace

OWN = parse_arrangement(
    "own.toml",
    'copies = "inclusive"\nttl_s = 0.5\npin = ["system"]\n[cpu]\nhigh = 0.9\nevict_share = 0.1\nup = "copy"\n'
    '[nvme]\ndown = "on-touch"\ntouches = 3\nuser_quota = 0.4\nfetch_share = 0.5\nup = "copy-top"',
)
CASES = {name: load_arrangement(name) for name in shipped_names()} | {"own.toml": OWN}
CLASSIC = ("waterfall", "spillover", "mlperf")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["trace", "live"])
def test_a_run_is_planned_again_from_its_record(trace: Trace, tmp_path: Path, name: str, order: str) -> None:
    """Chunks of one token, as objects have one to five tokens."""
    arrangement = CASES[name]
    if arrangement.chunk_tokens:
        arrangement = replace(arrangement, chunk_tokens=1)
    chosen = options(6, 20, arrangement=arrangement, order=ORDERS[order])
    info, _ = go(trace, tmp_path, chosen, verify="full")
    assert info["status"] == "complete", info["reason"]
    conditions = info["conditions"]
    recorded = chosen.arrangement.to_record()
    assert conditions["arrangement"] == recorded.name
    assert conditions.get("rules") == json.loads(json.dumps(recorded.rules))
    assert conditions["promote"] is False
    _, again = read_options(tmp_path / "run", trace)
    assert again.plan_version == (3 if name not in CLASSIC else 1 if order == "trace" else 2)
    assert Plan(trace, again).simulate().plan_fingerprint == info["executed_fingerprint"]


def test_the_command_plans_like_a_run_and_checks_it(trace: Trace, tmp_path: Path) -> None:
    chosen = options(6, 20, arrangement=replace(load_arrangement("kvbm"), chunk_tokens=1))
    info, _ = go(trace, tmp_path, chosen)
    planned = json.loads(here("replayer", "plan", trace.path, "--like", tmp_path / "run", "--json").stdout)
    assert planned["plan_fingerprint"] == info["plan"]["plan_fingerprint"]
    assert (planned["arrangement"], planned["rules"]) == ("kvbm", info["conditions"]["rules"])
    checked = here("analysis", "check", tmp_path / "run", "--trace", trace.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# Values in run.json that are well formed, and of no plan.
NO_PLAN: dict[str, Any] = {
    "arrangement": "lmcache",
    "bytes_per_token": 2**62,
    "headroom": "1E-999999999",
    "order": {"kind": "reference", "name": "nvme-7", "profile": {"gpu": {"streams": 0.5}}},
    "part": [1, 1],
    "request_depth": 0,
    "rules": {"cpu": {"touchs": 2}},
    "speedup": 0,
    "usable_bytes": {"gpu": 0, "cpu": 0, "nvme": 0},
    "windowed_bytes_per_token": 2**29,
    "workers": 2**40,
}


def test_conditions_that_are_of_no_plan_are_refused(trace: Trace, tmp_path: Path) -> None:
    """By their types, as they are read, or where the plan is made; never by the compiled core."""
    go(trace, tmp_path, options(6, 20))
    run = tmp_path / "run"
    content = run_json(run)
    for name, value in NO_PLAN.items():
        save_run_json(run, content | {"conditions": content["conditions"] | {name: value}})
        sentence(here("replayer", "plan", trace.path, "--like", run), str(run))
        summary = here("analysis", "summary", run)
        assert summary.returncode in (0, 2), name
        assert summary.returncode == 0 or "copy the run anew" in summary.stderr, name


def test_hits_on_the_end_of_a_chunk_leave_a_record_that_can_be_read(tmp_path: Path) -> None:
    """Object 1 has 3 tokens and is stored with one of object 0's; ten hits on it alone spare 40 of 30 tokens."""
    steps: list[traces.Step] = [("w", 0, 3), ("w", 1, 3), *([("r", 1, 3)] * 10)]
    trace = traces.write(tmp_path / "trace.parquet", traces.columns(steps, [0, 0, *range(1, 11)]))
    go(trace, tmp_path, options(6, 20, arrangement=Arrangement("chunks", chunk_tokens=4)))
    plan = read_run(tmp_path / "run").plan
    assert plan is not None
    assert plan.hits.cpu == 10
    assert plan.recomputed_tokens == 0
