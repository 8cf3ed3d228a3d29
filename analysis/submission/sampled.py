"""Whether trials are replays of their own: sampled each second, ranks at one time, trials one after another."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from analysis.runs.samples import read_samples
from analysis.submission.summary_json import Trial, place_of
from replayer.schema import DEVICE_ADDED
from tracegen.errors import InputError

SAMPLE_S: Final = (0.9, 1.5)
"""Seconds between two samples, in the median: the replayer takes one each second, a busy machine some later."""


def sampled(name: str, path: Path) -> Iterator[str]:
    """What is wrong with the counters, which this release samples each second.

    Args:
        name: of the run's directory, for people.
        path: of its device.parquet.
    """
    if not path.exists():
        yield f"{name} has no device.parquet, which says what the device did"
        return
    try:
        samples = read_samples(path)
    except InputError:  # the run is told of as one that cannot be read
        return
    if lacking := [column for column in DEVICE_ADDED if column not in pq.read_schema(path).names]:
        yield f"{name}/device.parquet lacks {', '.join(lacking)}"
    spans = sorted((samples["interval_ns"][:-1] / 1e9).to_list())
    least, most = SAMPLE_S
    if len(spans) > 2 and not least <= (between := spans[len(spans) // 2]) <= most:
        yield f"{name}/device.parquet has a sample every {between:.2f} s; the replayer takes one each second"


def apart(trials: Sequence[Trial]) -> Iterator[str]:
    """Where trials overlap in time, or wrote the same bytes; where ranks of a trial do not overlap."""
    spans = []
    for trial in trials:
        begun = [zero for zero in trial.summary.provenance.zero_ns if zero is not None]
        ended = [end for end in trial.summary.provenance.ended_ns if end is not None]
        if begun and ended:
            spans.append((min(begun), max(ended), place_of(trial)))
            if max(begun) >= min(ended):
                yield f"the ranks of {place_of(trial)} did not run at the same time: one began after another had ended"
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        if start < end:
            yield f"{after} began before {before} had ended"
    nonces: dict[tuple[int, Any], str] = {}
    for trial in trials:
        for rank, info in enumerate(trial.infos):
            if (nonce := info.payload_nonce) is None:
                continue
            first = nonces.setdefault((rank, nonce), place_of(trial))
            if first != place_of(trial):
                yield f"{place_of(trial)}/rank_{rank} wrote the payload of {first}: their payload_nonce is the same"
