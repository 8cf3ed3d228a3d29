"""An untouched package is valid; whatever a forger changes in it is reported."""

import json
import platform
import shutil
from typing import Any, Final

import numpy as np
import pytest

from analysis.submission import package_checks
from analysis.submission.package_tree import find_packages
from tests.analysis.submission.hand_made.forging import (
    CLAIMS,
    LOG,
    ONE,
    RUN,
    TWO,
    Forgery,
    begin_too_soon,
    change_log,
    copy_run,
    flip_bit,
    marked,
    relabel_as_closed,
    remove,
    remove_rank,
    replace_by_link,
    set_claim,
    set_description,
    set_environment,
    set_info,
)
from tests.support.crafted_runs import sampled
from tests.support.doubts import call
from tests.support.submissions import BASES, OPTIONS, TINY, Open, forge, manifest, problems, trial_of

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.mark.parametrize("name", BASES)
def test_a_package_is_valid(fresh: Open, name: str) -> None:
    package = fresh(name)
    done = call("submission", "validate", package.top)
    assert f"VALID: {package.top}, system box: 2 options, 4 trials" in done.stdout
    (told,) = json.loads(call("submission", "validate", package.results, "--json").stdout)
    assert told == {"system": "box", "valid": True, "submittable": True, "problems": [], "notes": []}


FORGERIES: Final[dict[str, Forgery]] = {
    # files
    "a byte of a log": Forgery(
        lambda package: flip_bit(trial_of(package, TWO) / "rank_0" / "moves" / "part-00000.parquet", -1),
        LOG, "option_1/trial_2/rank_0/moves/part-00000.parquet is not readable",
    ),
    "a byte of run.json": Forgery(
        lambda package: flip_bit(trial_of(package, TWO) / "rank_0" / "run.json", 0),
        RUN, "option_1/trial_2/rank_0/run.json is damaged",
    ),
    "a part of a log removed": Forgery(
        remove("kv_cache/*/run/*/option_1/trial_2/rank_0/moves/part-00001.parquet"),
        "part-00001.parquet is missing, though manifest.json lists it",
        "option_1/trial_2 is not valid: the log has ops = 10, the plan 20: parts are missing or altered",
    ),
    "a part of a log added": Forgery(
        lambda package: shutil.copy(
            trial_of(package, TWO) / "rank_0" / "moves" / "part-00000.parquet",
            trial_of(package, TWO) / "rank_0" / "moves" / "part-00002.parquet",
        ),
        "part-00002.parquet is not listed in manifest.json",
        "option_1/trial_2 is not valid: the log has ops = 30, the plan 20: parts are missing or altered",
    ),
    "a log removed": Forgery(
        remove("kv_cache/*/run/*/option_1/trial_2/rank_0/moves"),
        "part-00001.parquet is missing, though manifest.json lists it",
        "option_1/trial_2/rank_0 holds no closed part of a log",
    ),
    "run.json removed": Forgery(
        remove("kv_cache/*/run/*/option_1/trial_2/rank_0/run.json"),
        "option_1/trial_2/rank_0/run.json is missing, though manifest.json lists it",
        "option_1/trial_2/rank_0 is not a run directory",
    ),
    "a link in the place of a file": Forgery(
        replace_by_link, "environment.json is a link; a package contains the file itself", "environment.json is a link",
    ),
    "the report removed": Forgery(remove("report.html"), "report.html is missing, though", "report.html is missing"),
    "a prediction in the place of a trial": Forgery(
        lambda package: marked(trial_of(package, TWO) / "rank_0" / "run.json"),
        RUN, "option_1/trial_2 did not measure the system: it was predicted",
    ),
    # claims
    "a metric raised": Forgery(
        set_claim("options.option_1.decode_read_gib_s", 99.5), CLAIMS,
        "summary.json: options.option_1.decode_read_gib_s is 99.5, but its logs give ", claims=False,
    ),
    "a metric of a rank lowered": Forgery(
        set_claim("options.option_2.trials.1.ranks.0.nvme_write_device_p95_ms", 0.25), CLAIMS,
        "options.option_2.trials[1].ranks[0].nvme_write_device_p95_ms is 0.25, but its logs give ", claims=False,
    ),
    "MLPerf's metric raised": Forgery(
        set_claim("options.option_1.aggregated_read_bandwidth_gbps", 99.5), CLAIMS,
        "options.option_1.aggregated_read_bandwidth_gbps is 99.5, but its logs give ", claims=False,
    ),
    "a metric removed": Forgery(
        set_claim("options.option_1.drain_s", ...), CLAIMS,
        "summary.json: options.option_1.drain_s is missing, but its logs give 0.0", claims=False,
    ),
    "a metric added": Forgery(
        set_claim("options.option_1.iops", 10**6), CLAIMS,
        "summary.json: options.option_1.iops is 1000000, but its logs give nothing", claims=False,
    ),
    "a number as a text": Forgery(
        set_claim("options.option_1.trial_count", "2"), CLAIMS,
        "summary.json: options.option_1.trial_count is 2, but its logs give 2", claims=False,
    ),
    "a trial left out of the claims": Forgery(
        set_claim("options.option_2.trials", []), CLAIMS,
        "summary.json: options.option_2.trials is [], but its logs give [", claims=False,
    ),
    "called a trial run": Forgery(
        set_claim("submittable", False), CLAIMS, "summary.json: submittable is false, but its logs give true", claims=False,
    ),
    "the claims removed": Forgery(
        remove("kv_cache/*/run/*/summary.json"), "summary.json is missing, though manifest.json lists it",
        "summary.json cannot be read: ", claims=False,
    ),
    "times of a log halved": Forgery(
        change_log(lambda run: run.rows.update(device_read_ns=run.rows["device_read_ns"] // 2)), LOG,
        "options.option_1.trials[1].ranks[0].nvme_read_device_p95_ms is ", claims=False,
    ),
    # what there must be
    "an option removed": Forgery(
        remove("kv_cache/*/run/*/option_2"), "option_2/trial_2/rank_0/run.json is missing, though manifest.json lists",
        "option_2 (some memory) is missing",
    ),
    "a trial removed": Forgery(
        remove("kv_cache/*/run/*/option_1/trial_2"), "option_1/trial_2/rank_0/run.json is missing, though",
        "trial 2 of option_1 is missing",
    ),
    "a trial twice": Forgery(copy_run(ONE, "trial_2"), RUN, "2 of these are one run, named or copied more than once"),
    "a trial too many": Forgery(
        copy_run(ONE, "trial_3"), "option_1/trial_3/rank_0/run.json is not listed in manifest.json",
        "trial 3 of option_1 is surplus: 2 trials are required",
    ),
    "a rank removed": Forgery(
        remove("kv_cache/*/run/*/option_1/trial_2/rank_1"), "trial_2/rank_1/run.json is missing, though",
        "option_1/trial_2 is not valid: rank 1 of 2 is missing", "ranks",
    ),
    "a rank removed without a trace": Forgery(
        remove_rank, "trial_2/rank_1/run.json is missing, though",
        "trials have different numbers of ranks (1, 2): a rank is missing or was added", "ranks",
    ),
    "a rank twice": Forgery(
        copy_run(f"{TWO}/rank_0", "rank_1"), "trial_2/rank_1/run.json was changed",
        "option_1/trial_2 is not valid: rank_1 is not rank 1 of 2: it comes from another run", "ranks",
    ),
    "a rank added": Forgery(
        copy_run(f"{TWO}/rank_1", "rank_2"), "trial_2/rank_2/run.json is not listed in manifest.json",
        "option_1/trial_2 is not valid: rank_2 does not belong to this run of 2 ranks", "ranks",
    ),
    "ops of ranks": Forgery(
        set_info(TWO, "executed_ops", 999), "option_1/trial_2/run.json was changed",
        "option_1/trial_2 is not valid: the ranks executed 24 ops, the run 999", "ranks",
    ),
    # which work was done
    "the fingerprint of a trace": Forgery(
        set_info(f"{TWO}/rank_0", "trace.fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 replayed the trace ffffffffffff…, not {pin}…, which option_1 pins",
    ),
    "another trace": Forgery(
        change_log(lambda run: run.info.update(rank=0) or run.rows.update(rank=run.rows["rank"] * 0), rank=1), RUN,
        "option_1/trial_2/rank_0 has a trace with the seed 43, not 42",
    ),
    "another trace, its seed edited": Forgery(
        change_log(
            lambda run: (
                run.info["trace"].update(seed=42), run.info.update(rank=0), run.rows.update(rank=run.rows["rank"] * 0)
            ),
            rank=1,
        ),
        RUN, "option_1/trial_2/rank_0 replayed the trace {other}…, not {pin}…, which option_1 pins",
    ),
    "in OPEN a trial of another trace": Forgery(
        set_info(f"{TWO}/rank_0", "trace.fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 replayed another trace (ffffffffffff…) than trial 1", "open",
    ),
    "the fingerprint of what was executed": Forgery(
        set_info(f"{TWO}/rank_0", "executed_fingerprint", "f" * 64), RUN,
        "option_1/trial_2 is not valid: the rows of rank_0 are not those of its plan: their fingerprint is ",
    ),
    "the fingerprint of a plan": Forgery(
        set_info(f"{TWO}/rank_0", "plan.plan_fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 followed another plan (ffffffffffff…) than trial 1",
    ),
    "a rank of another name": Forgery(
        set_info(f"{TWO}/rank_0", "rank", 7), RUN, "option_1/trial_2/rank_0: run.json says that it is rank 7",
    ),
    "rows dropped": Forgery(
        change_log(lambda run: run.rows.update({name: one[:-3] for name, one in run.rows.items()})), LOG,
        "option_1/trial_2 is not valid: the log has ops = 17, the plan 20: parts are missing or altered",
    ),
    "rows of another key": Forgery(
        change_log(lambda run: run.rows.update(key=np.append(run.rows["key"][:-1], 2))), LOG.replace("00000", "00001"),
        "option_1/trial_2 is not valid: the rows of rank_0 are not those of its plan: their fingerprint is ",
    ),
    "an error called complete": Forgery(
        change_log(lambda run: run.rows["status"].__setitem__(slice(3), 1)), LOG,
        "option_1/trial_2 is not valid: 3 moves failed and 0 more could not be made after them",
    ),
    "a run that was interrupted": Forgery(
        change_log(lambda run: run.info.update(status="incomplete", reason="interrupted")), RUN,
        "option_1/trial_2 is not valid: the run is incomplete: interrupted",
    ),
    "a run cut short": Forgery(
        change_log(lambda run: run.info["window"].update(cut_s=1.5)), RUN,
        "option_1/trial_2 is not valid: run.json says that the run was cut after 1.500 s, not at the duration",
    ),
    "a log that ends sooner": Forgery(
        change_log(lambda run: run.rows.update(start_ns=run.rows["start_ns"] // 2, end_ns=run.rows["end_ns"] // 2)), LOG,
        "option_1/trial_2/rank_0: its log holds times",
    ),
    # how it was done
    "reads that a cache served": Forgery(
        change_log(lambda run: setattr(run, "samples", sampled(run.rows, read=0.1))),
        "option_1/trial_2/rank_0/device.parquet was changed",
        "option_1/trial_2 is not valid: the device delivered 10% of what the nvme tier read: a cache served the rest",
    ),
    "a cache in memory": Forgery(
        set_info(f"{TWO}/rank_0", "machine.storage.filesystem", "tmpfs"), RUN,
        "option_1/trial_2 is not valid: the nvme tier was in memory, on tmpfs",
    ),
    "a throttle": Forgery(
        set_info(f"{TWO}/rank_0", "conditions.throttle", {"nvme": {"gib_s": 1.0}}), RUN,
        'option_1/trial_2/rank_0 ran with throttle = {{"nvme": {{"gib_s": 1.0}}}}; CLOSED fixes {{}}',
    ),
    "in OPEN a trial of other conditions": Forgery(
        set_info(f"{TWO}/rank_0", "conditions.fsync", "none"), RUN,
        'option_1/trial_2/rank_0 ran with fsync = "none"; the first trial has "data"', "open",
    ),
    "OPEN called CLOSED": Forgery(
        relabel_as_closed, None, 'option_1/trial_2/rank_0 ran with fsync = "data"; CLOSED fixes "none"', "open",
    ),
    "a pause too short": Forgery(
        begin_too_soon, "option_2/trial_2/rank_0/run.json was changed",
        "option_2 began 29 s after the end of option_1; the rules require 30 s",
    ),
    "other layers": Forgery(
        set_info(f"{TWO}/rank_0", "conditions.attention_window", 1), RUN,
        "option_1/trial_2/rank_0 ran with attention_window = 1; CLOSED fixes nothing",
    ),
    "another processor": Forgery(
        set_info(f"{TWO}/rank_0", "machine.cpu", "abacus"), RUN, "runs have different processors: AMD EPYC, abacus",
    ),
    "another device": Forgery(
        set_info(f"{TWO}/rank_0", "machine.storage.device_model", "punched tape"), RUN,
        "runs have different devices below the cache: None, punched tape",
    ),
    "another release": Forgery(
        set_info(f"{TWO}/rank_0", "machine.packages", {"kv-tier-bench": "9.9"}), RUN,
        "runs have different releases of this tool: 0.1.0, 9.9",
    ),
    # whose it is
    "the system's description removed": Forgery(
        lambda package: package.description.unlink(), "systems/box.yaml is missing, though manifest.json lists it",
        "systems/box.yaml: cannot be read",
    ),
    "a description of nothing": Forgery(
        lambda package: package.description.write_text("- a\n- b\n"), "systems/box.yaml was changed",
        "systems/box.yaml: system_under_test is missing",
    ),
    "a description without solution": Forgery(
        set_description("system_under_test.solution", ...), "systems/box.yaml was changed",
        "systems/box.yaml lacks solution.architecture.product_API",
    ),
    "a description without clients": Forgery(
        set_description("system_under_test.clients", []), "systems/box.yaml was changed",
        "systems/box.yaml must describe clients, each with chassis, ",
    ),
    "a client without drives": Forgery(
        set_description("system_under_test.clients.0.drives", ...), "systems/box.yaml was changed",
        "systems/box.yaml must describe clients, each with chassis, ",
    ),
    "a description that is not filled in": Forgery(
        set_description("system_under_test.clients.0.chassis.model_name", None), "systems/box.yaml was changed",
        "systems/box.yaml: clients[0].chassis.model_name is not filled in",
    ),
    "submission.yaml of others": Forgery(
        lambda package: (package.top / "submission.yaml").write_text("organisation: duff\n"),
        "submission.yaml was changed", "submission.yaml is missing, or is not that of this organisation and division",
    ),
    "a manifest of another organisation": Forgery(
        manifest("organisation", "duff"), None, "manifest.json names the organisation duff, but its directory is acme",
    ),
    "a manifest of another division": Forgery(
        manifest("division", "open"), None, "manifest.json names the division open, but its directory is closed",
    ),
    "the environment of another host": Forgery(
        set_environment("host", "elsewhere"), "environment.json was changed",
        "environment.json is from elsewhere, but the runs are from {host}",
    ),
    "one file system": Forgery(
        set_environment("file_systems", {"cache": "8:1", "results": "8:1"}), "environment.json was changed",
        "environment.json: results and cache were on one file system; the rules require two",
    ),
    "an environment that says nothing": Forgery(
        set_environment("host", ...), "environment.json was changed", "environment.json lacks host or file_systems",
    ),
    "the environment removed": Forgery(
        remove("environment.json"), "environment.json is missing, though", "environment.json cannot be read: ",
    ),
    "a model of another name": Forgery(
        lambda package: (package.results / "kv_cache" / "hand-made").rename(package.results / "kv_cache" / "gpt-9"),
        "is missing, though manifest.json lists it", "option_1 is in the directory of model gpt-9, but its model is hand-made",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_reported(fresh: Open, name: str) -> None:
    forgery = FORGERIES[name]
    package = fresh(forgery.base)
    forgery.change(package)
    (package,) = find_packages(next(package.top.parents[1].glob("*/acme")))
    if forgery.listed is not None:
        found = [*package.find_irregular(), *package_checks.check_files(package)]
        assert [text for text in found if forgery.listed in text], found
    forge(package, claims=forgery.claims)
    found = problems(package)
    pin, other = (str(TINY.find_pin("option_1", rank))[:12] for rank in (0, 1))
    told = forgery.problem.format(pin=pin, other=other, host=platform.node())
    assert [text for text in found if told in text], found
    assert not [text for text in found if "manifest.json lists" in text or "sha256" in text], (
        "manifest and claims were computed again"
    )


@pytest.mark.parametrize("trial", [1, 2])
def test_every_file_is_listed(fresh: Open, trial: int) -> None:
    """Flip a bit in every file at once, except those of the other trial."""
    package = fresh("ranks")
    files = [path for path in package.list_files() if f"trial_{3 - trial}" not in str(path)]
    assert len(files) == 2 + 3 + 2 * (2 + 2 * 4), (
        "yaml twice; summary, report, environment; per option its runs and logs"
    )
    for path in files:
        flip_bit(path, path.stat().st_size // 2)
    found = problems(package)
    for path in files:
        assert f"{path.relative_to(package.top)} was changed: its size or sha256 differs from manifest.json" in found


SETTINGS: Final[dict[str, Any]] = {
    "model": "other", "bytes_per_token": 1 << 18, "usable_bytes": {"gpu": 0, "cpu": 5, "nvme": None}, "headroom": "0.9",
    "arrangement": "spillover", "rules": {"cpu": {"policy": "fifo"}}, "promote": True, "lookup": "contiguous", "decode": "once", "users": 3, "part": [0, 2], "cycles": 2, "workers": 5,
    "pace": "asap", "speedup": 2.0, "token_ms": 30.0, "prefill_tok_s": 100.0, "request_depth": 2,
    "max_concurrent_allocs": None, "duration_s": 1.0, "warmup": {"ops": 5, "s": 0.0}, "precondition_gib": 1.0,
    "layout": "slab", "direct": False, "io_bytes": 4096, "io_depth": 8, "fsync": "data", "verify": "off",
    "gpu_device": "cpu", "gpu_read": "copy", "gds": True, "throttle": {"cpu": {"gib_s": 2.0}}, "window_ops": 4096,
    "window_bytes": 1, "ops": 7, "drain_s": 9.0, "io_engine": "uring", "placement": "live",
    "order": {"kind": "reference", "name": "nvme-2", "profile": None, "ops_digest": None}, "a new one": 1,
}  # fmt: skip


def test_closed_fixes_every_setting(fresh: Open) -> None:
    package = fresh("alone")
    closed = OPTIONS[0].closed
    assert {*SETTINGS} == {*closed, "rules", "a new one"}
    for name, value in SETTINGS.items():
        set_info(f"{TWO}/rank_0", f"conditions.{name}", value)(package)
    set_info(f"{ONE}/rank_0", "conditions.io_depth", ...)(package)
    found = problems(package)
    for name, value in SETTINGS.items():
        fixed = json.dumps(closed[name]) if name in closed else "nothing"
        assert f"option_1/trial_2/rank_0 ran with {name} = {json.dumps(value)}; CLOSED fixes {fixed}" in found
    assert "option_1/trial_1/rank_0 ran with io_depth = null; CLOSED fixes 1" in found
