"""The whole way from runs to a profile, on the computed clock of a profile that is known."""

from functools import cache

import numpy as np
import pytest

from replayer.prediction.profile import Profile
from replayer.prediction.profile_file import format_profile
from replayer.prediction.stations import Station
from replayer.profiling.cells import WHATS
from replayer.profiling.measuring import fit_profile
from replayer.profiling.rounds import CellSeries
from replayer.profiling.station_fit import predict_us
from replayer.profiling.tier_fit import JUDGED_BYTES
from tests.replayer.prediction.profile_texts import make_profile, parse_profile
from tests.replayer.profiling.virtual_rig import VirtualRig

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
READ = Station(LOADS, (5.0, 5, 6, 7, 8, 30), (80.0, 82, 90, 120, 250, 1000), (1.2, 2.3, 4.4, 6.6, 7.0, 7.0))
WRITE = Station(
    LOADS, (20.0, 20, 22, 30, 40, 100), (30.0, 32, 40, 80, 160, 640), (1.0, 1.9, 2.5, 3.0, 3.0, 3.0), (),
    (20.0, 21, 22, 23, 24, 40),
)  # fmt: skip
TRUE = make_profile(READ, WRITE)
# Standard deviation of ln(time) between runs, where there is noise
CPU_NOISE = 0.1


@cache
def fit(noise: float) -> Profile:
    findings = CellSeries(VirtualRig(TRUE, noise), {"nvme": 1 << 30}, 30.0, lambda *_: None).measure()
    assert TRUE.conditions is not None
    fitted, warnings = fit_profile("fitted", TRUE.conditions, {"cores": 2}, findings)
    assert not warnings
    return parse_profile("fitted", format_profile(fitted))


def test_without_noise_the_model_is_found_again() -> None:
    found = fit(0.0).tiers["nvme"]
    for load in (1.0, 1.5, 2.0, 3.0, 6.0, 8.0, 12.0, 16.0, 32.0, 60.0):
        for size in (1 << 16, 1 << 20, 1 << 24):
            for true, station in ((READ, found.read), (WRITE, found.write)):
                wanted, got = (predict_us(one, size, np.array([load]))[0] for one in (true, station))
                assert got == pytest.approx(wanted, rel=0.05), (load, size)
    assert found.read.latency_us[0] == pytest.approx(80, rel=0.01)
    assert found.read.bandwidth_gb_s[0] == pytest.approx(1.2, rel=0.01)
    assert found.write.open_us[0] == pytest.approx(20, rel=0.01)
    assert found.write.remove_us[0] == pytest.approx(20, rel=0.1)
    assert found.writes_on_reads == pytest.approx(0.8, abs=0.06)
    assert found.reads_on_writes == pytest.approx(0.7, abs=0.06)
    assert float(fit(0.0).machine["nvme_error"]) < 0.02


@pytest.mark.parametrize("slower", [1.2, 4.0])
def test_a_credit_that_short_phases_do_not_exhaust_is_found(slower: float) -> None:
    """The tier is slower from the second run in a row with 1 MiB and 16 workers on: no round has two of them."""
    last = [(0, 0)]

    def drain(_number: int, size: int, workers: int) -> float:
        last.append((size, workers))
        return slower if last[-2] == last[-1] == (1 << 20, 16) else 1.0

    findings = CellSeries(VirtualRig(TRUE, 0.0, drain), {"nvme": 1 << 30}, 30.0, lambda *_: None).measure()
    assert TRUE.conditions is not None
    profile, warnings = fit_profile("fitted", TRUE.conditions, {"cores": 2}, findings)
    for station, burst, what in (
        (profile.tiers["nvme"].read, READ, "read"),
        (profile.tiers["nvme"].write, WRITE, "write"),
    ):
        (alone_us,) = predict_us(burst, 1 << 20, np.array([16.0]))
        kept = 16 * (1 << 20) / alone_us / 1e3 / slower
        assert profile.machine[f"nvme_sustained_{what}_gb_s"] == pytest.approx(kept, rel=0.02)
        (model_us,) = predict_us(station, 1 << 24, np.array([16.0]))
        (burst_us,) = predict_us(burst, 1 << 24, np.array([16.0]))
        assert model_us / burst_us == pytest.approx(slower if slower == 4 else 1, rel=0.2)
        assert station.bandwidth_gb_s[0] == pytest.approx(
            min(burst.bandwidth_gb_s[0], kept if slower == 4 else 9), rel=0.02
        )
    assert [warning[:22] for warning in warnings] == (["the nvme tier sustains"] * 2 if slower == 4 else [])
    assert float(profile.machine["nvme_error"]) < 0.02, "the error of the fit, not of the bursts"


def test_the_work_of_workers_is_found_again() -> None:
    cpu = fit(0.0).cpu
    assert cpu.make_ns_per_byte == pytest.approx(0.11, rel=0.01)
    assert cpu.check_ns_per_byte == pytest.approx(0.02, rel=0.01)
    assert cpu.move_us == pytest.approx(6, rel=0.05)


def test_the_error_is_that_of_the_cells() -> None:
    """Nine tenths of the judged cells are within it, as the profile lists them."""
    profile = fit(CPU_NOISE)
    judged = [one for one in profile.cells if one.what != "remove" and JUDGED_BYTES[0] <= one.bytes <= JUDGED_BYTES[1]]
    inside = [abs(one.residual) <= float(profile.machine["nvme_error"]) for one in judged]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)
    assert float(profile.machine["nvme_error"]) < 1.64 * 0.54 * CPU_NOISE


def test_residuals_are_those_of_the_cells() -> None:
    profile = fit(CPU_NOISE)
    assert {cell.what for cell in profile.cells} == set(WHATS)
    for cell in profile.cells:
        assert cell.residual == pytest.approx(cell.model_us / cell.measured_us - 1, abs=0.001)
        assert cell.low_us <= cell.measured_us <= cell.high_us
    nvme, sizes = profile.tiers["nvme"], {cell.bytes for cell in profile.cells}
    assert (nvme.smallest_bytes, nvme.largest_bytes) == (min(sizes), max(sizes))
    judged = [abs(cell.residual) for cell in profile.cells if cell.bytes in range(*JUDGED_BYTES)]
    # Medians of five rounds have 0.54 of a run's deviation, and the fit follows them in part.
    assert 0.1 * CPU_NOISE < np.median(judged) < 0.54 * CPU_NOISE
