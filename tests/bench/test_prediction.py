"""The arithmetic of the error table, by hand."""

import pytest

from replayer.prediction.profile import CpuProfile, Profile, TierProfile
from replayer.prediction.stations import Station
from tests.bench.prediction.cells import METRICS, Values
from tests.bench.prediction.rules import MANY, make_independent, make_shared, predict_by_peak
from tests.bench.prediction.table import (
    Repeats,
    Row,
    count_signs,
    median_error,
    median_error_of_ratios,
    write_markdown,
)

STATION = Station(
    in_flight=(1.0, 4.0, 16.0), open_us=(5.0, 6.0, 9.0), latency_us=(80.0, 90.0, 200.0), bandwidth_gb_s=(2.0, 6.0, 8.0)
)
PROFILE = Profile(
    name="p",
    kind="data sheet",
    source="here",
    conditions=None,
    machine={},
    cpu=CpuProfile(2.0, 0.0, 0.0, 0.0),
    tiers={"nvme": TierProfile(STATION, STATION, 0.5, 0.7, 1, 2)},
)


def ns_per_byte(station: Station, point: int) -> float:
    return station.in_flight[point] / station.bandwidth_gb_s[point]


@pytest.mark.parametrize("simplify", [make_independent, make_shared])
def test_simple_rules_have_the_costs_of_one_request(simplify: object) -> None:
    tier = simplify(PROFILE).tiers["nvme"]  # type: ignore[operator]
    assert (tier.writes_on_reads, tier.reads_on_writes) == (0, 0)
    for station in (tier.read, tier.write):
        assert set(station.latency_us) == {80.0}
        assert set(station.open_us) == {5.0}
        assert ns_per_byte(station, 0) == 0.5
        assert station.in_flight[-1] == MANY


def test_independent_servers_never_get_slower() -> None:
    assert ns_per_byte(make_independent(PROFILE).tiers["nvme"].read, -1) == 0.5


def test_processor_sharing_shares_the_peak() -> None:
    station = make_shared(PROFILE).tiers["nvme"].read
    assert station.in_flight[1] == 4.0  # 8 GB/s ÷ 2 GB/s
    assert ns_per_byte(station, 1) == 0.5
    assert ns_per_byte(station, 2) == MANY / 8.0


def test_bytes_by_peak_take_the_slowest_station() -> None:
    work: Values = {"tokens_generated": 1000, "nvme_read_bytes": 16e9, "nvme_write_bytes": 8e9}
    found = predict_by_peak(PROFILE, work)  # 2 s of reads, beside 1 s of writes
    assert found == {"wall_clock_tok_s": 500, "nvme_read_gib_s": pytest.approx(8e9 / 2**30)}


def make_row(workers: int, measured: list[float], predicted: float) -> Row:
    return Row(
        "ram",
        "chat",
        "1",
        workers,
        measured=[dict.fromkeys(METRICS, value) for value in measured],
        nearby=[dict.fromkeys(METRICS, 1.0) for _ in measured],
        predicted=dict.fromkeys(METRICS, predicted),
    )


def test_errors_are_of_the_median_of_trials() -> None:
    rows = [make_row(4, [9, 10, 20], 11), make_row(16, [20, 20], 16)]
    assert [row.error("ttfb_p95_ms") for row in rows] == pytest.approx([0.1, -0.2])
    assert median_error(rows, "ttfb_p95_ms") == pytest.approx(0.15)
    assert "16.0, -20.0%" in write_markdown(rows, [], 1)


@pytest.mark.parametrize(("predicted", "right"), [((5, 9), 1), ((9, 5), 0)])
def test_a_sign_is_right_if_p95_moves_as_measured(predicted: tuple[float, float], right: int) -> None:
    rows = [make_row(4, [10], predicted[0]), make_row(16, [30], predicted[1])]
    assert count_signs(rows) == (right, 1)


def test_a_cell_without_such_moves_counts_nowhere() -> None:
    row = make_row(4, [10], 10)
    row.measured = [dict.fromkeys(METRICS)]
    assert row.error("nvme_read_p95_ms") is None
    assert count_signs([row, make_row(16, [30], 9)]) == (0, 0)


def test_repeats_are_apart_from_their_median() -> None:
    repeats = Repeats("ram", "chat", [dict.fromkeys(METRICS, value) for value in (8.0, 10.0, 10.0, 15.0)])
    assert repeats.deviation("ttfb_p95_ms") == pytest.approx((0.1, 0.5))


def test_ratios_to_the_repeated_cell_do_not_drift() -> None:
    first, other = make_row(4, [10, 5], 20), make_row(16, [30, 15], 66)  # the drive halves its speed
    for row in (first, other):
        row.nearby = [dict.fromkeys(METRICS, value) for value in (10, 5)]
    assert other.error("wall_clock_tok_s") == pytest.approx(66 / 22.5 - 1)
    assert other.error_of_ratio("wall_clock_tok_s", first) == pytest.approx(3.3 / 3 - 1)
    assert median_error_of_ratios([first, other], "wall_clock_tok_s") == pytest.approx(0.1)
