"""The fit of a station: least squares without negative values, points, and what it recovers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.prediction.stations import Station
from replayer.profiling.cells import Visits
from replayer.profiling.station_fit import choose_points, fit_station, predict_us, share_out, solve_nonnegative
from replayer.profiling.tier_fit import fit_weight

SIZES = [1 << power for power in (16, 18, 20, 22, 24)]


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 30))
def test_no_other_solution_without_negative_values_is_nearer(seed: int, columns: int, rows: int) -> None:
    """The conditions of Karush, Kuhn and Tucker: the gradient is 0 where x > 0, and points outwards elsewhere."""
    random = np.random.default_rng(seed)
    matrix, target = random.normal(size=(rows, columns)), random.normal(size=rows)
    solution = solve_nonnegative(matrix, target)
    gradient = matrix.T @ (target - matrix @ solution)
    assert (solution >= 0).all()
    assert (gradient <= 1e-6).all()
    assert gradient @ solution == pytest.approx(0, abs=1e-6)


def test_points_are_apart_and_begin_at_one() -> None:
    assert choose_points([[1.0, 1.0], [1.9, 2.1], [2.2, 2.3], [4.0, 3.6], [7.0]]) == (1, 2, 3.8)


@given(st.floats(1, 1000))
def test_costs_at_a_load_are_those_of_the_page(load: float) -> None:
    points, costs = (1.0, 2.0, 8.0), np.array([3.0, 5.0, 17.0])
    wanted = 3 + 2 * (load - 1) if load < 2 else 5 + 12 * (load - 2) / 6 if load < 8 else 17 * load / 8
    assert share_out(load, points) @ costs == pytest.approx(wanted)


def make_station(steps: list[float], latency: list[float], bytes_per_ns: list[float], opens: list[float]) -> Station:
    loads = tuple(np.cumprod([1.0, *steps]).tolist())
    count = len(loads)
    costs = sorted(1 / one for one in bytes_per_ns)
    bandwidths = [load / cost for load, cost in zip(loads, costs, strict=False)]
    return Station(loads, tuple(opens[:count]), tuple(latency[:count]), tuple(bandwidths), (), (20.0,) * count)


stations = st.builds(
    make_station,
    st.lists(st.floats(1.3, 3), min_size=2, max_size=6),
    st.lists(st.floats(1, 500), min_size=7, max_size=7),
    st.lists(st.floats(0.1, 20), min_size=7, max_size=7),
    st.lists(st.floats(0, 50), min_size=7, max_size=7),
)


def sample_station(station: Station, noise: float = 0.0, seed: int = 0) -> list[Visits]:
    random = np.random.default_rng(seed)
    loads = [*station.in_flight, *((low + high) / 2 for low, high in pairwise(station.in_flight))]
    samples = []
    for load in loads:
        open_us = float(share_out(load, station.in_flight) @ np.array(station.open_us))
        for size in SIZES:
            factor = float(np.exp(random.normal(0, noise))) if noise else 1.0
            time_us = float(predict_us(station, size, np.array([load]))[0])
            samples.append(Visits(size, load, time_us * factor, open_us * factor))
    return samples


@given(stations)
def test_the_fit_recovers_the_station_that_made_the_times(station: Station) -> None:
    removals = [
        Visits(1, load, float(share_out(load, station.in_flight) @ np.array(station.remove_us)))
        for load in station.in_flight
    ]
    fitted = fit_station(sample_station(station), removals, station.in_flight)
    assert fitted.latency_us == pytest.approx(station.latency_us, rel=1e-3, abs=0.01)
    assert fitted.open_us == pytest.approx(station.open_us, rel=1e-3, abs=0.01)
    assert fitted.bandwidth_gb_s == pytest.approx(station.bandwidth_gb_s, rel=1e-3)
    assert fitted.remove_us == pytest.approx(station.remove_us, rel=1e-3)


def test_bandwidth_that_noise_suggests_is_not_believed() -> None:
    """At load 4 only two sizes were measured, and the larger one seems no slower."""
    station = Station((1.0, 4.0), (0.0, 0.0), (10.0, 40.0), (1.0, 1.0))
    samples = sample_station(station)
    few = [one for one in samples if one.load < 4] + [Visits(1 << 16, 4.0, 400.0), Visits(1 << 18, 4.0, 400.0)]
    fitted = fit_station(few, [], station.in_flight)
    assert fitted.bandwidth_gb_s[1] <= 4 * fitted.bandwidth_gb_s[0] * 1.001


@given(stations, st.integers(0, 200))
def test_the_weight_that_made_mixed_times_is_found(station: Station, steps: int) -> None:
    """A weight is a multiple of 0.02; between two of them a steep station can differ by a quarter."""
    weight = 0.02 * steps
    medians = []
    for size in SIZES:
        for load, others in ((1.0, 1.0), (1.7, 2.3), (3.0, 5.0)):
            time_us = float(predict_us(station, size, np.array([load + weight * others]))[0])
            medians.append(Visits(size, load, time_us, others=others))
    found = fit_weight(station, medians)
    times = [float(predict_us(station, one.bytes, np.array([one.load + found * one.others]))[0]) for one in medians]
    assert times == pytest.approx([one.time_us for one in medians], rel=1e-6)


def test_without_mixed_visits_nothing_is_known_of_weights() -> None:
    station = make_station([2.0], [1.0] * 2, [1.0] * 2, [0.0] * 2)
    alone = Visits(1 << 20, 1.0, 100.0, others=0.1)
    assert fit_weight(station, [alone]) == 1
