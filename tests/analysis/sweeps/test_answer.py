"""The answer of a sweep: sentences worked by hand, and claims against an oracle."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sweeps.answer import answer_sweep, compose_sentence, describe_growth
from analysis.sweeps.sweep import ALIKE, compare_labels, find_best, find_least, find_plateau
from tests.analysis.sweeps.sweeps import cell, make_curve, make_sweep

RATES = st.integers(0, 900)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (
            [(1, 0.2), (2, 0.65), (4, 0.8), (8, 0.8)],  # the knee, at 2 GiB, is 0.75 - 1/3 above the diagonal
            "1 GiB of DRAM hits 20.0% of prompt tokens, 2 GiB of DRAM 65.0%, 4 GiB of DRAM 80.0%, unlimited memory"
            " 90.0%; larger sizes add less than 0.5 points.",
        ),
        ([(0, 0.05), (2, 0.9)], "no DRAM hits 5.0% of prompt tokens, 2 GiB of DRAM 90.0%, unlimited memory 90.0%."),
        ([(1, 0.5)], "1 GiB of DRAM hits 50.0% of prompt tokens, unlimited memory 90.0%."),
    ],
)
def test_growth_names_the_least_size_the_knee_and_the_plateau(points: list[tuple[float, float]], said: str) -> None:
    assert describe_growth(make_curve(*points, bound=0.9)) == said
    assert describe_growth(make_curve(*points, bound=0.9), "vllm") == f"With vllm, {said}"


def test_the_answer_names_the_rules_that_hit_the_most_and_where(tmp_path: Path) -> None:
    """lru: 10 and 50%; s3fifo: 40 and 52%. On average s3fifo leads, by 30 points at 1 GiB."""
    cells = [
        cell(0, 1.0, 100),
        cell(1, 2.0, 500),
        cell(2, 1.0, 400, policy="s3fifo"),
        cell(3, 2.0, 520, policy="s3fifo"),
    ]
    answer = answer_sweep(make_sweep(tmp_path, *cells))
    assert answer.sentence == (
        "With s3fifo, 1 GiB of DRAM hits 40.0% of prompt tokens, 2 GiB of DRAM 52.0%, unlimited memory 90.0%."
        " Of 2 policies, s3fifo hits the most on average, up to 30.0 points more than lru (at 1 GiB of DRAM)."
    )
    figures = {figure.name: figure.value for figure in answer.figures}
    assert figures == {"hit_rate_tokens": 0.52, "bound_tokens": 0.9}
    assert "too little memory" in [doubt.headline for doubt in answer.doubts]


def test_rules_within_half_a_point_make_no_difference(tmp_path: Path) -> None:
    cells = [cell(0, 1.0, 100), cell(1, 2.0, 504), cell(2, 1.0, 104, policy="arc"), cell(3, 2.0, 500, policy="arc")]
    made = make_sweep(tmp_path, *cells)
    spread = compare_labels(made)
    assert spread is not None
    assert spread.is_alike
    assert "hardly matters" in compose_sentence(made)


def test_no_reads_and_no_axes_have_answers(tmp_path: Path) -> None:
    nothing = {"hit_rate_tokens": None, "bound_tokens": None}
    empty = answer_sweep(make_sweep(tmp_path, cell(0, 1.0, 0, **nothing)))
    assert empty.sentence == "No cell has a prompt, so no memory helps."
    assert not empty.figures
    assert compose_sentence(make_sweep(tmp_path, cell(0, 1.0, 300))) == (
        "1 GiB of DRAM hits 30.0% of prompt tokens, unlimited memory 90.0%."
    )


def test_a_policy_that_knows_the_future_is_never_chosen(tmp_path: Path) -> None:
    made = make_sweep(tmp_path, cell(0, 1.0, 100), cell(1, 1.0, 900, policy="belady"))
    best = find_best(made)
    assert best is not None
    assert best["policy"] == "lru"
    assert compare_labels(made) is None
    assert "belady is a bound" in [doubt.headline for doubt in answer_sweep(made).doubts]


def test_the_least_memory_counts_dram_before_the_drive(tmp_path: Path) -> None:
    """90% of the bound are 810 reads: 1 GiB with a drive reach them, and 4 GiB without."""
    drive = {"storage_capacity_gb": 10.0, "write_bytes_nvme": 5 << 30, "drive_writes_per_day": 3.5}
    drive["write_bytes_per_day_nvme"] = 35 << 30
    cells = [cell(0, 1.0, 809), cell(1, 4.0, 810), cell(2, 1.0, 850, **drive), cell(3, 4.0, 900, **drive)]
    answer = answer_sweep(make_sweep(tmp_path, *cells), "A title")
    assert answer.title == "A title"
    sizes = [(figure.name, figure.value) for figure in answer.figures[2:]]
    drives = [("storage_capacity_gb", 10), ("drive_writes_per_day", 3.5)]
    assert sizes == [("cpu_mem_gb", 1), *drives, ("cpu_mem_gb", 4)]
    assert answer.tables[0].marked == {2}


@given(st.lists(RATES, min_size=1, max_size=8))
def test_no_size_above_the_plateau_hits_more_and_each_below_it_misses_something(rates: list[int]) -> None:
    curve = make_curve(*((2.0**at, rate / 1000) for at, rate in enumerate(rates)))
    plateau = find_plateau(curve)
    for point in curve.points:
        best_above = max(later.rate for later in curve.points if later.gib >= point.gib)
        is_enough = best_above - point.rate < ALIKE
        assert is_enough if point.gib == plateau.gib else point.gib > plateau.gib or not is_enough


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 4.0]), st.sampled_from([0.0, 2.0, 8.0]), RATES), min_size=1, max_size=9
    )
)
def test_the_least_memory_is_that_of_an_oracle(cells: list[tuple[float, float, int]]) -> None:
    rows = [cell(at, cpu, hits, storage_capacity_gb=nvme) for at, (cpu, nvme, hits) in enumerate(cells)]
    with tempfile.TemporaryDirectory() as folder:
        made = make_sweep(Path(folder), *rows)
    fitting = [(cpu, nvme, -hits) for cpu, nvme, hits in cells if hits >= 810]
    found = find_least(made)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert (found["cpu_mem_gb"], found["storage_capacity_gb"], -found["hits"]) == min(fitting)  # type: ignore[operator]


@settings(max_examples=40)
@given(st.lists(st.tuples(RATES, RATES, RATES), min_size=1, max_size=5))
def test_the_lead_of_the_best_rules_is_that_of_an_oracle(sizes: list[tuple[int, int, int]]) -> None:
    names = ("lru", "arc", "s3fifo")
    rows = [
        cell(3 * at + one, 2.0**at, hits[one], policy=names[one]) for at, hits in enumerate(sizes) for one in range(3)
    ]
    with tempfile.TemporaryDirectory() as folder:
        spread = compare_labels(make_sweep(Path(folder), *rows))
    assert spread is not None
    best = names.index(spread.best)
    assert sum(hits[best] for hits in sizes) == max(sum(hits[one] for hits in sizes) for one in range(3))
    assert spread.points == pytest.approx(max(hits[best] - min(hits) for hits in sizes) / 10)
    assert spread.widest == pytest.approx(max(max(hits) - min(hits) for hits in sizes) / 10)
