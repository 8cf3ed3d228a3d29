"""Merges, slices and scales are traces again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import traces
from tests.support.command_line import Run
from tests.tracegen.derived import RECIPE, read_ops, write_derivation
from tracegen.derive.derivation import merge
from tracegen.derive.reshape import SHARED_SOURCES, SliceRanges, scale_trace, slice_trace
from tracegen.errors import InputError
from tracegen.generate import generate
from tracegen.schema import Trace


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("derive") / "t.parquet"
    generate(replace(RECIPE, seed=3), path)
    return Trace(path)


def test_merged_traces_keep_their_ops_and_share_nothing(example: Trace, tmp_path: Path) -> None:
    generate(replace(RECIPE, seed=4, users=3, requests=50), tmp_path / "b.parquet")
    other = Trace(tmp_path / "b.parquet")
    both = write_derivation(tmp_path / "both.parquet", merge([example, other]))
    for name in ("ops", "requests", "sessions", "users", "keys", "tokens_generated"):
        assert both.metadata.counts[name] == sum(trace.metadata.counts[name] for trace in (example, other))
    of = read_ops(both)
    for first, trace in ((0, example), (example.metadata.counts["users"], other)):
        mine = (of["user_id"] >= first) & (of["user_id"] < first + trace.metadata.counts["users"])
        for name in ("time_ns", "turn", "step", "phase", "op", "source", "tokens", "new_tokens", "think_ns"):
            assert (of[name][mine] == read_ops(trace)[name]).all(), name


SLICES = {
    "time": SliceRanges(seconds=(20, 60)),
    "all": SliceRanges((10, 90), (2, 14), (3, 50), (0, 200)),
}


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_holds_the_whole_requests_it_selects(name: str, example: Trace, tmp_path: Path) -> None:
    selection, of = SLICES[name], read_ops(example)
    first = np.unique(of["request_id"], return_index=True)[1]
    keep = np.ones(len(first), np.bool_)
    for column, limits, unit in (
        ("time_ns", selection.seconds, 10**9),
        ("user_id", selection.users, 1),
        ("session_id", selection.sessions, 1),
        ("request_id", selection.requests, 1),
    ):
        if limits:
            keep &= (of[column][first] >= limits[0] * unit) & (of[column][first] < limits[1] * unit)
    rows = keep[of["request_id"]]
    found = read_ops(write_derivation(tmp_path / "s.parquet", slice_trace(example, selection)))
    assert 0 < rows.sum() < len(rows)
    shift = int(selection.seconds[0] * 10**9) if selection.seconds else 0
    assert (found["time_ns"] == of["time_ns"][rows] - shift).all()
    for column in ("step", "tokens", "new_tokens", "source", "phase", "qos"):
        assert (found[column] == of[column][rows]).all(), column
    # Same objects, first used as writes.
    assert len(np.unique(found["key"])) == len(np.unique(of["key"][rows]))
    assert (found["op"] == 0).sum() == len(np.unique(found["key"]))


def test_an_empty_slice_is_refused(example: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would hold no ops"):
        write_derivation(tmp_path / "s.parquet", slice_trace(example, SliceRanges(users=(10**6, 10**7))))
    assert list(tmp_path.iterdir()) == []


def test_scaled_users_have_objects_of_their_own_but_share_prompts_and_chunks(example: Trace, tmp_path: Path) -> None:
    found = write_derivation(tmp_path / "s.parquet", scale_trace(example, 3))
    before, after = example.metadata.counts, found.metadata.counts
    assert after["requests"] == 3 * before["requests"]
    assert after["users"] == 3 * before["users"]
    of = read_ops(example)
    shared = np.unique(of["key"][np.isin(of["source"], SHARED_SOURCES)])
    assert 0 < len(shared) < before["keys"]
    assert after["keys"] == 3 * (before["keys"] - len(shared)) + len(shared)
    assert read_ops(found)["time_ns"].max() == of["time_ns"].max()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(1, 3), st.tuples(st.integers(0, 90), st.integers(1, 90)))
def test_slices_of_scaled_traces_are_traces(
    example: Trace, tmp_path: Path, users: int, seconds: tuple[int, int]
) -> None:
    scaled = write_derivation(tmp_path / "scaled.parquet", scale_trace(example, users))
    try:
        part = write_derivation(
            tmp_path / "part.parquet",
            slice_trace(scaled, SliceRanges(seconds=(seconds[0], sum(seconds)), users=(1, 99))),
        )
    except InputError:
        return
    again = write_derivation(tmp_path / "again.parquet", merge([part, scaled]))
    assert again.ops == part.ops + scaled.ops


def test_a_slice_that_deletes_an_object_before_storing_it_is_refused(tmp_path: Path) -> None:
    steps = [("w", 0, 5), ("w", 1, 7), ("x", 0, 5), ("r", 1, 7), ("x", 1, 7), ("r", 1, 7)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps))
    with pytest.raises(InputError, match="never stored"):
        write_derivation(tmp_path / "s.parquet", slice_trace(trace, SliceRanges(requests=(2, 9))))
    found = read_ops(
        write_derivation(tmp_path / "s.parquet", slice_trace(trace, SliceRanges(requests=(1, 9), users=(0, 2))))
    )
    assert found["key"].tolist() == [0]


def test_the_commands_derive_valid_traces(run: Run, tmp_path: Path, demo_trace: Path) -> None:
    run("tracegen", "slice", demo_trace, "--users", "3:6", "--time", ":40", "-o", tmp_path / "s.parquet")
    run("tracegen", "scale", tmp_path / "s.parquet", "--users", 2, "-o", tmp_path / "x.parquet")
    assert "valid" in run("tracegen", "validate", tmp_path / "x.parquet").stdout


def test_two_traces_differ_where_their_ops_do(run: Run, tmp_path: Path, example: Trace) -> None:
    ops = read_ops(example)
    other = traces.write(tmp_path / "t.parquet", ops | {"tokens": ops["tokens"] + (ops["op_id"] == 5)})
    begin = traces.write(tmp_path / "begin.parquet", {name: column[:9] for name, column in ops.items()})
    found = run("tracegen", "diff", example.path, other.path, "--json", ok=False)
    assert found.returncode == 1
    tokens = int(ops["tokens"][5])
    wanted = {"equal": False, "first": {"row": 5, "column": "tokens", "a": tokens, "b": tokens + 1}}
    assert json.loads(found.stdout).items() >= (wanted | {"rows_differing": {"tokens": 1}}).items()
    shorter = run("tracegen", "diff", example.path, begin.path, ok=False)
    assert shorter.returncode == 1
    assert "the 9 they share are equal" in shorter.stdout
