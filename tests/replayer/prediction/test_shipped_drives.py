"""The profiles that ship: each says where it is from, and follows the rules of its page."""

import re
import tomllib
from pathlib import Path

import pytest

from replayer.prediction.profile_file import load_profile, shipped_profiles
from tests.support.paths import ROOT

MIB = 2**20
# Of the bandwidth: the rate at which one request of 1 MiB is transferred
READ_SHARE, WRITE_SHARE = 0.8, 1.0


def text_of(name: str) -> str:
    return Path(ROOT / "replayer" / "drives" / f"{name}.toml").read_text()


def test_some_ship_and_the_page_names_them() -> None:
    page = (ROOT / "docs" / "predicting.md").read_text()
    assert len(shipped_profiles()) >= 6
    assert all(f"`{name}`" in page for name in shipped_profiles())


@pytest.mark.parametrize("name", shipped_profiles())
def test_a_drive_is_a_whole_machine_and_says_where_it_is_from(name: str) -> None:
    profile = load_profile(name)
    assert (profile.name, profile.kind, profile.conditions) == (name, "estimated", None)
    assert set(profile.tiers) == {"gpu", "cpu", "nvme"}
    assert re.search(r"read on \d{4}-\d\d-\d\d$", profile.source)
    header = text_of(name).partition("profile_version")[0]
    assert re.search(r"#   https?://", header)


@pytest.mark.parametrize("name", shipped_profiles())
@pytest.mark.parametrize(("way", "share"), [("read", READ_SHARE), ("write", WRITE_SHARE)])
def test_stream_follows_from_latency_and_bandwidth(name: str, way: str, share: float) -> None:
    station = tomllib.loads(text_of(name))["nvme"][way]
    alone_ns = station["latency_us"] * 1e3 + MIB / (share * station["bandwidth_gb_s"])
    assert station["stream_gb_s"] == pytest.approx(MIB / alone_ns, abs=0.005)
