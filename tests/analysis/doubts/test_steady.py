"""When a run was steady, by SNIA's rule over ten rounds, and windows that begin there."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.summary.summary import summarise
from tests.support.logs import make_rows, write_run

S = 10**9
MIB = 2**20
ROUND_S = 2


def write_rounds(place: Path, mib: list[int], *, reads: int = 1000, latency_ms: list[int] | None = None) -> Path:
    """Twenty seconds in rounds of two: in each, so many reads of so many MiB, after another."""
    model = make_rows(0, 1)[0] | {"move": "hit", "op": "read", "status": "ok", "from_tier": "nvme", "to_tier": None}
    model |= {"window_ns": 0, "order_ns": 0, "waited_for": None, "seq": 0, "write_ns": 0, "device_write_ns": 0}
    rows: list[dict[str, Any]] = []
    for at, size in enumerate(mib):
        for n in range(reads):
            end = at * ROUND_S * S + (n + 1) * ROUND_S * S // reads - 1
            took = (latency_ms or [1] * len(mib))[at] * 10**6
            times = {"due_ns": 0, "ready_ns": 0, "start_ns": max(0, end - took), "end_ns": end}
            times |= {"read_ns": end - times["start_ns"], "device_read_ns": 0}
            number = len(rows)
            rows.append(
                model | times | {"op_id": number, "position": number, "request_id": number, "size_bytes": size * MIB}
            )
    rows[0] |= {"start_ns": 0, "read_ns": rows[0]["end_ns"]}
    window = {"duration_s": 20, "cut_s": 20.0, "drain_s": 0.0}
    return write_run(place, rows, pace="asap", window=window)


def not_steady(place: Path) -> list[str]:
    return [doubt["text"] for doubt in summarise(place).to_json()["doubts"] if doubt["kind"] == "not steady"]


ROUNDS: list[tuple[list[int], int | None]] = [  # MiB of a read in each round, and since when they are alike
    ([5] * 10, 0),
    ([1, 3, *[5] * 8], 4),
    ([9, *[5] * 9], 2),
    ([100, 120, 100, 120, 100] * 2, 0),  # a range of 20 in a mean of 108 or 112
    ([100, 124, 100, 124, 100] * 2, None),  # of 24 in 109.6 or 114.4
    ([100, 102, 105, 107, 110, 112, 115, 118, 121, 124], 0),  # five rise by 10 of 104.8
    ([100, 103, 106, 109, 112, 116, 120, 124, 128, 132], None),  # five rise by 12 of 106
]


@pytest.mark.parametrize(("mib", "since_s"), ROUNDS)
def test_a_run_is_steady_from_the_first_five_rounds_alike(tmp_path: Path, mib: list[int], since_s: int | None) -> None:
    texts = not_steady(write_rounds(tmp_path / "run", mib, reads=1000))
    assert len(texts) == (since_s != 0)
    assert all((f"only from {since_s} s on" in text) == (since_s is not None) for text in texts)


def test_latency_counts_like_throughput(tmp_path: Path) -> None:
    (text,) = not_steady(write_rounds(tmp_path / "run", [5] * 10, latency_ms=[30, 20, 10, *[5] * 7]))
    assert "only from 6 s on" in text


def test_nothing_is_said_of_few_moves(tmp_path: Path) -> None:
    assert not_steady(write_rounds(tmp_path / "run", [1, 9] * 5, reads=999)) == []


def test_the_window_begins_where_it_was_asked_to(tmp_path: Path) -> None:
    place = write_rounds(tmp_path / "run", [1, 3, 5, 5, 5, 5, 5, 5, 5, 5])
    ask_for_steady(place)
    found = summarise(place).to_json()
    assert found["elapsed_s"] == 16.0
    assert found["nvme_read_gib_s"] == pytest.approx(5 * 8000 / 1024 / 16, rel=1e-3)
    assert not_steady(place) == []


def test_a_run_that_never_was_steady_is_not_valid_if_that_was_asked_for(tmp_path: Path) -> None:
    place = write_rounds(tmp_path / "run", [1, 9] * 5)
    ask_for_steady(place)
    found = summarise(place).to_json()
    (doubt,) = [doubt for doubt in found["doubts"] if doubt["kind"] == "not steady"]
    assert doubt["invalidates"]
    assert "never was steady" in doubt["text"]
    assert found["elapsed_s"] == pytest.approx(20)


def ask_for_steady(place: Path) -> None:
    info = json.loads((place / "run.json").read_text())
    info["conditions"]["warmup"] = {"ops": 0, "s": 0, "steady": True}
    info["warmup"] = {"ops": 0, "end_ns": 0}
    (place / "run.json").write_text(json.dumps(info))
