"""Times of requests, what they waited for, and the bottleneck."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings

from analysis.summary import summary
from replayer.schema import WAITS
from tests.analysis import metric_oracle
from tests.analysis.metric_oracle.facts import Row, Rows
from tests.analysis.metrics.comparing import assert_same, log_of, summarise_both_ways
from tests.analysis.metrics.shared_logs import S, by_hand, logs
from tests.support.logs import samples, write_run

GIB = 2**30


@settings(max_examples=25)
@given(rows=logs())
def test_parts_of_a_request_are_not_longer_than_it(rows: Rows) -> None:
    found = log_of(rows).requests
    e2e, parts = found["done_ns"] - found["due_ns"], found.select("io_ns", "queue_ns", "plan_wait_ns")
    assert (parts.sum_horizontal() <= e2e).all()
    assert parts.select(pl.min_horizontal(pl.all()) >= 0).to_series().all()


@pytest.mark.parametrize("cause", ["data", "order", "window", None])
def test_waits_of_a_request_have_their_cause(tmp_path: Path, cause: str | None) -> None:
    """Due at 0, ready at 3 s, done at 4."""
    row = by_hand()[1] | {"due_ns": 0, "ready_ns": 3 * S, "start_ns": 3 * S, "end_ns": 4 * S, "order_ns": 0}
    row |= {"waited_for": cause if cause in WAITS else None, "window_ns": 0}
    row |= {f"{cause}_ns": 3 * S} if cause in ("order", "window") else {}
    found, _ = summarise_both_ways(tmp_path / "run", [row], token_ms=0.0, workers=8)
    assert found["plan_wait_s"] == 3.0
    for name in ("data", "eviction", "room", "order", "window"):
        assert found[f"{name}_wait_mean_ms"] == 3000.0 * (name == cause)
        assert found[f"{name}_wait_share"] == 0.75 * (name == cause)
    assert found["bottleneck"] == (cause or "plan")


@pytest.mark.parametrize(
    ("workers", "times", "bottleneck"),
    [
        (10, {"device_read_ns": 9}, "device"), (12, {"device_read_ns": 9}, "device"), (13, {"device_read_ns": 9}, "data"),
        (10, {"device_read_ns": 1}, "host"), (10, {"device_read_ns": 1, "verify_ns": 11}, "verify"),
        (30, {"verify_ns": 0}, "data"), (30, {"verify_ns": 15}, "verify"),
    ],
)  # fmt: skip
def test_the_bottleneck_is_where_busy_workers_are(tmp_path: Path, workers: int, times: Row, bottleneck: str) -> None:
    """Ten moves at once for 10 s, which had waited for 200 s in all, beside so many workers."""
    hit = by_hand()[1] | {"due_ns": 0, "ready_ns": 20 * S, "start_ns": 20 * S, "end_ns": 30 * S, "waited_for": "data"}
    hit |= {"read_ns": 10 * S} | {name: value * S for name, value in times.items()}
    rows = [hit | {"op_id": n, "position": n} for n in range(10)]
    found, expected = summarise_both_ways(tmp_path / "run", rows, workers=workers)
    assert found["bottleneck"] == expected["bottleneck"] == bottleneck


CEILING: Row = {"shallow": 8, "device": 1.0, "end": 140, "cpu": 0.5, "system": 0.5}


@pytest.mark.parametrize(
    ("change", "bottleneck"),
    [
        ({}, "device"), ({"shallow": 7.99}, "data"),
        ({"device": 0.5}, "device"), ({"device": 0.49}, "data"),
        ({"end": 142}, "device"), ({"end": 143}, "data"),
        ({"cpu": 0.91}, "cpu"), ({"system": 0.91}, "device"), ({"system": 0.91, "end": 143}, "cpu"),
    ],
)  # fmt: skip
def test_a_drive_that_is_always_busy_and_no_faster_with_more_moves_is_the_limit(
    tmp_path: Path, change: dict[str, float], bottleneck: str
) -> None:
    """One move from 100 to 120 s, then two of 5 MiB until 140 s; all of them waited from 0 on.

    With 8 MiB the one moves 0.8 of the bytes of the two. A move in memory ends 2 or 3 s later: nvme is busy for 40 s of
    42, more than 0.95, or of 43. Half of the times, or less, are in the device.
    """
    case = CEILING | change
    moves = [(100, 120, "nvme", case["shallow"]), *[(120, 140, "nvme", 5)] * 2, (140, case["end"], "cpu", 1)]
    rows = []
    for n, (begin, end, tier, mib) in enumerate(moves):
        at = {"due_ns": 0, "ready_ns": begin * S, "start_ns": begin * S, "end_ns": end * S, "waited_for": "data"}
        at |= {"read_ns": (end - begin) * S, "device_read_ns": int((end - begin) * case["device"] * S)}
        rows.append(by_hand()[1] | at | {"op_id": n, "position": n, "from_tier": tier, "size_bytes": int(mib * 2**20)})
    counted = [
        one | {"process_cpu": 2 * case["cpu"], "system_cpu": 2 * case["system"]}
        for one in samples(1, 150, counted=False)
    ]
    place = write_run(tmp_path / "run", rows, device=counted, workers=8, machine={"host": "vm", "cores": 2})
    found = summary.summarise(place).to_json()
    assert found["bottleneck"] == metric_oracle.summary(metric_oracle.read(place))["bottleneck"] == bottleneck


def write_requests(place: Path, opened: dict[int, bool], warm_until_s: int | None = None) -> Path:
    """Ten requests, one due each second, each 1 s of prefill; cut at 10 s, when those of `opened` are not done.

    Of `opened`, one that is marked has moved for 0.5 s, and the others have not begun. Rows that were due more
    than 1 s before `warm_until_s` are marked as warm-up.
    """
    rows = []
    for n in range(10):
        took = S if n not in opened else S // 2
        at = {"due_ns": n * S, "ready_ns": n * S, "start_ns": n * S, "end_ns": n * S + took, "new_tokens": 0}
        if opened.get(n, True):
            row = by_hand()[1] | at | {"op_id": n, "position": n, "request_id": n, "phase": "prefill"}
            rows.append(row | {"warmup": n < (warm_until_s or 0) - 1})
    listed = {"request_id": list(opened), "due_ns": [n * S for n in opened]}
    listed |= {"qos": [0] * len(opened), "in_prefill": [1] * len(opened)}
    about: Row = {"window": {"duration_s": 10, "cut_s": 10.0, "drain_s": 0.0}, "unfinished": listed}
    write_run(place, rows, token_ms=0.0, **about)
    if warm_until_s is not None:
        info = json.loads((place / "run.json").read_text())
        info["warmup"] = {"ops": warm_until_s, "end_ns": warm_until_s * S}
        info["conditions"]["warmup"] = {"ops": 0, "s": warm_until_s}
        (place / "run.json").write_text(json.dumps(info))
    return place


def test_requests_that_are_not_done_end_the_sample(tmp_path: Path) -> None:
    """The first of them was due at 8 s of 10, so the eight before it are counted; all took 1 s."""
    found = summary.summarise(write_requests(tmp_path / "run", {8: True, 9: False})).to_json()
    assert_same(found, {"requests": 10, "unfinished_requests": 2, "ttfb_p95_ms": 1000.0, "e2e_max_ms": 1000.0})
    assert found["more_than"] == {}
    assert [doubt["kind"] for doubt in found["doubts"]].count("unfinished requests") == 1


def test_too_early_a_request_that_is_not_done_leaves_times_unknown(tmp_path: Path) -> None:
    """The request due at 4 s had waited for 6 s at the cut, and that due at 9 s for 1 s; the others took 1 s."""
    found = summary.summarise(write_requests(tmp_path / "run", {4: False, 9: True})).to_json()
    assert_same(found, {"requests": 10, "unfinished_requests": 2, "ttfb_p95_ms": None, "e2e_mean_ms": None})
    assert found["more_than"]["ttfb_max_ms"] == found["more_than"]["e2e_max_ms"] == 6000.0
    assert found["more_than"]["e2e_mean_ms"] == 1500.0
    assert found["lateness_max_ms"] is None


def test_requests_due_in_the_warm_up_do_not_count(tmp_path: Path) -> None:
    """The request due at 2 s began after the warm-up of 3 s, but was due in it."""
    place = write_requests(tmp_path / "run", {9: True}, warm_until_s=3)
    found = summary.summarise(place).to_json()
    expected = metric_oracle.summary(metric_oracle.read(place))
    assert found["requests"] == expected["requests"] == 7
    assert found["unfinished_requests"] == expected["unfinished_requests"] == 1
