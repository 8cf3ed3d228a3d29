"""The nvme tier holds the payload of the trace's seed."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from replayer.models.geometry import TokenBytes
from tests.replayer.run.replays import gib, go, kept_files, options
from tracegen.schema import Trace


def test_what_lies_on_the_disk_is_the_payload_of_the_traces_seed(trace: Trace, tmp_path: Path) -> None:
    """Stored and demoted alike, padding included: no sector repeats anywhere, and another seed writes other bytes."""
    plan = replace(options(0, None), bytes_per_token=TokenBytes(70_272), capacity_gib=(Decimal(0), gib(6), None))
    found = []
    for seed in (0, 1):
        trace.metadata.seed = seed
        place = tmp_path / str(seed)
        go(trace, place, plan, keep_cache=True)
        found.append(kept_files(place))
    assert set(found[0]) == set(found[1])
    sectors = [data[at : at + 512] for files in found for data in files.values() for at in range(0, len(data), 512)]
    assert len(set(sectors)) == len(sectors) > 1000
