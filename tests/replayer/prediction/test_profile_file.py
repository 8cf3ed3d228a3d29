"""What a profile may say, and what is refused."""

import re
from pathlib import Path

import pytest

from replayer.prediction.profile_file import load_profile
from tests.replayer.prediction.profile_texts import MEASURED, SHEET, parse_profile
from tracegen.errors import InputError


def test_a_measured_profile_is_read() -> None:
    profile = parse_profile("drive.toml", MEASURED)
    nvme = profile.tiers["nvme"]
    assert (profile.name, profile.kind, list(profile.tiers)) == ("drive", "measured", ["nvme"])
    assert (nvme.read.bandwidth_gb_s, nvme.writes_on_reads) == ((1.2, 2.3), 0.8)
    assert list(map(len, nvme.read.spread)) == [9, 0]


def test_the_short_form_is_expanded_as_the_page_says() -> None:
    """Points at 1, bandwidth ÷ stream and requests_per_s × latency; a station shares the two limits."""
    profile = parse_profile("sheet.toml", SHEET)
    read, write = profile.tiers["nvme"].read, profile.tiers["nvme"].write
    assert read.in_flight == (1, 7 / 1.5, 80)
    assert read.latency_us == (80, 80, 80)
    assert read.bandwidth_gb_s == (1.5, 7, 7)
    assert read.open_us == (0, 0, 0)
    assert write.in_flight == (1, 4)
    assert write.bandwidth_gb_s == (1.5, 6)
    assert profile.tiers["nvme"].writes_on_reads == 1
    assert profile.conditions is None


def test_a_rate_that_one_request_reaches_makes_latency() -> None:
    text = SHEET.replace("1_000_000", "1000")
    assert parse_profile("x", text).tiers["nvme"].read.latency_us == (1000, pytest.approx(1000 * 7 / 1.5))


def test_the_cpu_table_may_also_be_a_tier() -> None:
    tier = MEASURED[MEASURED.index("[nvme]") :].replace("nvme", "cpu").replace("[cpu]\n", "")
    text = MEASURED.replace("move_us = 6.0\n", "move_us = 6.0\n" + tier)
    profile = parse_profile("x", text)
    assert set(profile.tiers) == {"cpu", "nvme"}
    assert profile.tiers["cpu"] == profile.tiers["nvme"]


WRONG = [
    ("latency_us = [80.0, 82.0]", "latency_us = [80.0]", "nvme.read: in_flight has 2 values"),
    ("latency_us = [80.0, 82.0]", "latency_us = [1, 1e-9]", "nvme.read has a time below 1e-06 us"),
    ("in_flight = [1.0, 2.0]", "in_flight = [2.0, 3.0]", "nvme.read: in_flight is not ascending from 1"),
    ("[0.9, 0.93,", "[0.94, 0.93,", "nvme.read: spread has a list that is not nine ascending numbers"),
    ("smallest_bytes = 65536", "smallest_bytes = 99_999_999", "nvme: smallest_bytes is more than largest_bytes"),
    ("profile_version = 2", "profile_version = 1", "profile_version is 1, not 2; measure again"),
    ('kind = "measured"', 'kind = "data sheet"', "source is missing"),
]


@pytest.mark.parametrize(("old", "new", "problem"), WRONG, ids=[(new.strip() or old)[:40] for old, new, _ in WRONG])
def test_what_is_wrong_is_refused_with_file_table_and_key(old: str, new: str, problem: str) -> None:
    assert old in MEASURED
    with pytest.raises(InputError, match=re.escape(problem)) as refused:
        parse_profile("drive.toml", MEASURED.replace(old, new, 1))
    assert refused.value.sentence().startswith("profile drive.toml: ")
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("bandwidth_gb_s = 7.0", "bandwidth_gb_s = 1.0", "nvme.read: bandwidth_gb_s is less than stream_gb_s"),
        ("latency_us = 80.0", "in_flight = [1.0]\nlatency_us = 80.0", "nvme.read.in_flight is unknown"),
    ],
)
def test_what_is_wrong_in_the_short_form_is_refused(old: str, new: str, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        parse_profile("sheet.toml", SHEET.replace(old, new, 1))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(No such file.*name a file that") as refused:
        load_profile(tmp_path / "no.toml")
    assert refused.value.setting == "profile"
