"""Checks that each trial is a separate replay: its counters, its time and its payload."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from analysis.runs.samples import read_samples
from analysis.submission.summary_json import PackagedTrial, name_trial
from tracegen.errors import InputError

SAMPLE_S: Final = (0.9, 1.5)
"""Limits of the median interval of samples: the replayer samples each second, later if busy."""


def check_samples(name: str, path: Path) -> Iterator[str]:
    """Report counters that are missing, incomplete or not sampled each second.

    Args:
        name: name of the run directory, for messages.
        path: its device.parquet.
    """
    if not path.exists():
        yield f"{name} has no device.parquet, which records the work of the device"
        return
    try:
        samples = read_samples(path)
    except InputError:  # reported with the run, which cannot be opened
        return
    intervals = sorted((samples["interval_ns"][:-1] / 1e9).to_list())
    if len(intervals) <= 2:
        return
    least, most = SAMPLE_S
    median = intervals[len(intervals) // 2]
    if not least <= median <= most:
        rate = f"a sample every {median:.2f} s"
        yield f"{name}/device.parquet has {rate}; the replayer takes one each second"


def check_separation(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    """Report trials that overlap in time or share a payload, and ranks that ran one by one."""
    yield from _check_times(trials)
    yield from _check_payloads(trials)


def _check_times(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    spans = []
    for trial in trials:
        name = name_trial(trial)
        provenance = trial.summary.provenance
        starts = [zero_ns for zero_ns in provenance.zero_ns if zero_ns is not None]
        ends = [end_ns for end_ns in provenance.ended_ns if end_ns is not None]
        if starts and ends:
            spans.append((min(starts), max(ends), name))
            if max(starts) >= min(ends):
                reason = "one began after another ended"
                yield f"the ranks of {name} did not run at the same time: {reason}"
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        if start < end:
            yield f"{after} began before {before} ended"


def _check_payloads(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    first_of: dict[tuple[int, object], str] = {}
    for trial in trials:
        name = name_trial(trial)
        for rank, info in enumerate(trial.infos):
            if info.payload_nonce is None:
                continue
            first = first_of.setdefault((rank, info.payload_nonce), name)
            if first != name:
                run = f"{name}/rank_{rank}"
                yield f"{run} wrote the payload of {first}: their payload_nonce is the same"
