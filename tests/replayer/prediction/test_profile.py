"""What-if speeds, digests, spreads, and files that are written."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.prediction.profile import MeasuredCell
from replayer.prediction.profile_file import format_profile, load_profile, save_profile
from replayer.prediction.stations import Station, compute_spread_mean, scale_spread
from tests.replayer.prediction.profile_texts import MEASURED, SHEET, make_profile, parse_profile

SPREAD = scale_spread([0.9, 0.93, 0.98, 1.0, 1.01, 1.1, 1.2, 1.5, 2.0])
READ = Station((1.0, 2.0), (5.0, 6.0), (80.0, 90.0), (1.0, 1.5), (SPREAD, ()), (20.0, 21.0))


def test_speeds_divide_the_times_of_their_tier() -> None:
    profile = make_profile(READ)
    fast = profile.with_speed({"nvme": 2.0}).tiers["nvme"]
    assert fast.read.latency_us == (40, 45)
    assert fast.read.bandwidth_gb_s == (2, 3)
    assert fast.read.spread == READ.spread
    assert profile.with_speed({}) == profile


def test_the_digest_covers_the_model_and_nothing_else() -> None:
    profile = make_profile(READ)
    cell = MeasuredCell("nvme", "read", 65536, 1, 1.0, 85.0, 80.0, 90.0, 85.1, 0.001)
    other = replace(profile, name="other", source="x", machine={}, cells=(cell,))
    assert other.digest == profile.digest
    faster = make_profile(replace(READ, latency_us=(80.0, 90.5)))
    assert faster.digest != profile.digest
    conditions = replace(profile, conditions=replace(profile.conditions, verify="off"))
    assert conditions.digest != profile.digest


@given(st.lists(st.floats(0, 1e6), min_size=9, max_size=9).filter(lambda one: max(one) > 1e-6))
def test_spreads_are_scaled_to_a_mean_of_one_once(values: list[float]) -> None:
    scaled = scale_spread(sorted(values))
    assert compute_spread_mean(scaled) == pytest.approx(1, abs=1e-9)
    assert scale_spread(scaled) == scaled


@pytest.mark.parametrize("text", [MEASURED, SHEET])
def test_what_is_written_is_read_as_it_was(text: str, tmp_path: Path) -> None:
    profile = parse_profile("x", text)
    cells = (
        MeasuredCell("nvme", "read", 65536, 1, 1.0, 85.0, 80.0, 90.0, 85.1, 0.001),
        MeasuredCell("nvme", "mixed write", 1 << 26, 64, 40.3, 1e6, 9e5, 1.2e6, 1e6, -0.2),
    )
    profile = replace(
        profile,
        name='a "name" 🖴',
        machine={"a key": 'über "x"\n\x7f', "cores": 2, "load": 0.5},
        cells=cells,
    )
    if profile.conditions is not None:
        throttled = replace(profile.conditions, throttle={"nvme": {"mib_s": 300.0, "latency_us": 100.0}})
        profile = replace(profile, conditions=throttled)
    save_profile(profile, tmp_path / "drive.toml")
    loaded = load_profile(tmp_path / "drive.toml")
    assert loaded == profile
    assert loaded.digest == profile.digest
    assert [path.name for path in tmp_path.iterdir()] == ["drive.toml"]


def test_the_tiers_of_a_profile_are_written_once() -> None:
    profile = parse_profile("x", MEASURED)
    both = replace(profile, tiers={"cpu": profile.tiers["nvme"], "nvme": profile.tiers["nvme"]})
    assert parse_profile("x", format_profile(both)) == both
