"""Profiles as texts and values, and runs on their clocks, for several tests."""

import numpy as np

from replayer.planning.executing import Records
from replayer.prediction.profile import CpuProfile, Profile, ProfileConditions, TierProfile
from replayer.prediction.profile_file import SETTING, read_profile
from replayer.prediction.stations import Station
from replayer.prediction.virtual_engine import VirtualEngine
from tracegen.typed_files import parse_toml

MEASURED = """\
profile_version = 2
name = "drive"
kind = "measured"

[conditions]
layout = "files"
direct = true
io_bytes = 1_048_576
io_depth = 1
io_engine = "psync"
fsync = "none"
verify = "stamps"

[cpu]
cores = 2
make_ns_per_byte = 0.11
check_ns_per_byte = 0.02
move_us = 6.0

[nvme]
writes_on_reads = 0.8
reads_on_writes = 0.7
smallest_bytes = 65536
largest_bytes = 67_108_864

[nvme.read]
in_flight = [1.0, 2.0]
open_us = [5.1, 5.3]
latency_us = [80.0, 82.0]
bandwidth_gb_s = [1.2, 2.3]
spread = [[0.9, 0.93, 0.98, 1.0, 1.01, 1.1, 1.2, 1.5, 2.0], []]

[nvme.write]
in_flight = [1.0]
open_us = [20]
latency_us = [80]
bandwidth_gb_s = [1]
remove_us = [20]
"""

SHEET = """\
profile_version = 2
name = "sheet"
kind = "data sheet"
source = "https://example.com/drive.pdf, 2026-11-22"
cpu = {cores = 2, make_ns_per_byte = 0.11, check_ns_per_byte = 0.02, move_us = 6.0}

[nvme]

[nvme.read]
latency_us = 80.0
stream_gb_s = 1.5
bandwidth_gb_s = 7.0
requests_per_s = 1_000_000

[nvme.write]
latency_us = 10.0
stream_gb_s = 1.5
bandwidth_gb_s = 6.0
"""


def parse_profile(file: str, text: str) -> Profile:
    return read_profile(parse_toml(text, file, SETTING), file)


def run_virtually(engine: VirtualEngine) -> Records:
    """Return the log of an execution."""
    batches: list[Records] = []
    engine.run(lambda records, _errors, _rows: batches.append(records.copy()))
    engine.close()
    return np.concatenate(batches)


def make_profile(read: Station, write: Station | None = None) -> Profile:
    """Return a measured profile of an nvme tier."""
    return Profile(
        name="made",
        kind="measured",
        source="",
        conditions=ProfileConditions("files", True, 1 << 20, 1, "psync", "none", "stamps"),
        machine={"cpu": "x", "cores": 2},
        cpu=CpuProfile(2.0, 0.11, 0.02, 6.0),
        tiers={"nvme": TierProfile(read, write or read, 0.8, 0.7, 1 << 16, 1 << 26)},
    )
