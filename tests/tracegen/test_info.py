"""Reuse distances are LRU's stack distances, and the picture of a trace is one file."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import traces
from tests.support.command_line import Run, sentence
from tracegen.describe import reuse
from tracegen.describe.charts import list_charts
from tracegen.describe.info import describe
from tracegen.describe.reuse import measure_reuse
from views.charts import render_chart


def by_hand(steps: list[tuple[str, int, int]]) -> list[int]:
    """Distances as defined: the tokens of distinct objects since the last touch, O(n²)."""
    found = []
    for row, (op, key, _) in enumerate(steps):
        before = [i for i in range(row) if steps[i][1] == key]
        if op != "x":
            gone = not before or steps[before[-1]][0] == "x"
            touched = {k: n for o, k, n in steps[(before or [0])[-1] + 1 : row + 1] if o != "x"}
            found.append(-1 if gone else sum(touched.values()))
    return found


def test_distances_worked_by_hand(tmp_path: Path) -> None:
    """a(5) b(7) a: 12. b: 12 again. c(9) a: a, b and c are between: 21. a: 5, itself alone."""
    steps = [("w", 0, 5), ("w", 1, 7), ("r", 0, 5), ("r", 1, 7), ("w", 2, 9), ("r", 0, 5), ("d", 0, 5)]
    found = measure_reuse(traces.write(tmp_path / "t.parquet", traces.columns(steps)))
    assert found.distance.tolist() == [-1, -1, 12, 12, -1, 21, 5] == by_hand(steps)
    assert found.share == 1
    (last,) = [row for row in found.summarise() if row["source"] == "all"]
    assert (last["touches"], last["reuses"], last["distance_p50"], last["distance_max"]) == (7, 4, 12, 21)
    sizes, hits = found.hit_curve()
    assert (sizes[0], sizes[-1]) == pytest.approx((5, 21))
    assert (hits[0], hits[-1]) == (0.25, 1)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from("rrrx"), st.integers(0, 6)), min_size=1, max_size=60))
def test_distances_follow_their_definition(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int]]
) -> None:
    steps = [(op, key, 1 + key * 3) for op, key in drawn]
    path = tmp_path_factory.getbasetemp() / "reuse.parquet"
    assert measure_reuse(traces.write(path, traces.columns(steps))).distance.tolist() == by_hand(steps)


def test_a_popular_object_outside_the_sample_moves_no_quantile(tmp_path: Path) -> None:
    """One object has half of the reuses, at short distances, and is not sampled: the others give the quantiles."""
    rng = np.random.Generator(np.random.PCG64(5))
    spread, popular = rng.integers(0, 4000, 30_000), int(np.argmax(reuse._hash(np.arange(4000))))
    keys = np.concatenate([np.arange(4000), np.stack([np.full_like(spread, popular), spread], axis=1).ravel()])
    steps = [("w" if row < 4000 else "r", int(key), 10) for row, key in enumerate(keys)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps))
    exact, sample = measure_reuse(trace).summarise()[-1], measure_reuse(trace, trace.ops // 5)
    assert len(sample.distance) < 0.15 * trace.ops, "it is not in the sample"
    assert sample.summarise()[-1]["distance_p90"] == pytest.approx(exact["distance_p90"], rel=0.1)
    sizes, hits = sample.hit_curve()
    assert hits[np.searchsorted(sizes, 100)] == pytest.approx(0.5, abs=0.02)


def test_info_of_a_long_trace_states_the_sampled_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr("tracegen.describe.reuse.measure_reuse", lambda trace: measure_reuse(trace, 2000))
    run("tracegen", "generate", "--set", "mix.rag=1", "--requests", "400", "--users", "5", "-o", tmp_path / "t.parquet")
    shown = run("tracegen", "info", tmp_path / "t.parquet").stdout
    facts = json.loads(run("tracegen", "info", tmp_path / "t.parquet", "--json").stdout)
    assert (facts["users"], facts["documents"]) == (105, 100)
    assert "sessions of 5 users and 100 documents over" in shown
    assert f"distances are those of {facts['reuse_distance']['share']:.2%} of the objects" in shown
    counted = {row["source"]: row["reuses"] for row in facts["reuse_distance"]["sources"]}
    reads = Counter(all=facts["reads"])
    for row in facts["reuse"]:
        reads[row["source"]] += row["reads"]
    assert +Counter(counted) == reads


def test_a_trace_of_one_or_two_ops_can_be_drawn(tmp_path: Path) -> None:
    for steps in ([("w", 0, 5)], [("w", 0, 5), ("r", 0, 5)]):
        trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, time_ns=[0] * len(steps)))
        charts = list_charts(trace, describe(trace), measure_reuse(trace))
        assert all(render_chart(chart).startswith("<svg") for chart in charts)


def test_info_draws_and_does_not_replace_unasked(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    shown = run("tracegen", "info", demo_trace, "-o", page, "--charts", tmp_path / "charts").stdout
    assert "Reuse distance, tokens" in shown
    assert {path.name for path in (tmp_path / "charts").iterdir()} == {
        f"{name}.{form}" for name in ("arrivals", "prompt_lengths", "reuse", "working_set") for form in ("svg", "png")
    }
    assert page.read_text().count("<svg") == 4
    sentence(run("tracegen", "info", demo_trace, "-o", page, ok=False), "t.html", "--force")
    sentence(run("tracegen", "info", demo_trace, "-o", tmp_path / "t.jpg", ok=False), "-o", ".html")
