"""A search for users, as autoscale.json holds it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from analysis.metrics.catalogue import CATALOGUE
from analysis.report.text import format_number
from replayer.schema import Machine, drive, read_run
from tracegen.errors import InputError, ToolError

_SUMS: Final = {
    "steady_nvme_read_gib_s+steady_nvme_write_gib_s": "NVMe throughput, read and written",
}
"""What a sum of metrics is called."""


class SearchStep(msgspec.Struct, frozen=True):
    """A number of users, and what its replays measured."""

    users: int
    trials: int
    value: float | None
    interval: tuple[float, float] | None
    n: int | None
    evidence: bool
    throughput_gib_s: float | None
    p95_ms: float | None
    p95_n: int
    decision: str
    reason: str
    runs: tuple[str, ...]


class SearchResult(msgspec.Struct, frozen=True):
    """The answer; `users` is None if too little was measured, and 0 if not even one is enough."""

    users: int | None
    sure: bool
    text: str
    peak: float | None


class SearchTrace(msgspec.Struct, frozen=True):
    """The trace that was replayed."""

    path: str
    fingerprint: str


class SearchProfile(msgspec.Struct, frozen=True):
    """The profile that the replays were predicted from."""

    profile: str
    kind: str


class SearchContent(msgspec.Struct, frozen=True):
    """The part of autoscale.json that a report needs."""

    mode: Literal["qos", "capacity"]
    metric: str
    target: float | None
    target_is: Literal["at_most", "at_least"] | None
    target_saturation: float | None
    trace: SearchTrace
    flags: tuple[str, ...]
    duration_s: float
    prediction: SearchProfile | None
    autoscaling_stats: tuple[SearchStep, ...]
    result: SearchResult
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class SearchReading:
    """A search as a report reads it.

    Attributes:
        path: the file.
        content: what it holds.
        plain: the same as plain JSON.
    """

    path: Path
    content: SearchContent
    plain: object

    @property
    def is_predicted(self) -> bool:
        """Whether the replays were predicted instead of made."""
        return self.content.prediction is not None

    @property
    def steps(self) -> list[SearchStep]:
        """The steps, by users."""
        return sorted(self.content.autoscaling_stats, key=lambda step: step.users)

    @property
    def label(self) -> str:
        """The metric in words, without its unit."""
        name = self.content.metric
        return CATALOGUE[name].label if name in CATALOGUE else _SUMS.get(name, name)

    @property
    def unit(self) -> str:
        """The unit of the metric; empty for shares and ratios."""
        metric = CATALOGUE.get(self.content.metric.split("+")[0])
        return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit

    def find_step(self, users: int | None) -> SearchStep | None:
        """Return the step with a number of users; None if there is none."""
        return next((step for step in self.steps if step.users == users), None)

    def is_met(self, step: SearchStep) -> bool:
        """Whether a step is evidence that its users meet the target."""
        value, target = step.value, self.content.target
        if not step.evidence or value is None or target is None:
            return False
        return value >= target if self.content.target_is == "at_least" else value <= target

    def find_miss(self) -> SearchStep | None:
        """Return the step with the fewest users that are known to miss the target."""
        judged = [step for step in self.steps if step.evidence and self.content.target is not None]
        return next((step for step in judged if not self.is_met(step)), None)

    def format_value(self, value: float | None, *, with_unit: bool = True) -> str:
        """Return a value of the metric as people read it."""
        metric = CATALOGUE.get(self.content.metric)
        if value is None:
            return "not measured"
        if metric is not None and metric.is_share:
            return f"{value:.1%}"
        return f"{format_number(value)} {self.unit if with_unit else ''}".rstrip()

    def describe_machine(self) -> str:
        """Return processor and drive of the replays; empty if their directories are gone."""
        steps = self.content.autoscaling_stats
        for run in steps[-1].runs if steps else ():
            try:
                info = read_run(self.path.parent.joinpath(*Path(run).parts[-2:]))
            except (ToolError, OSError):
                continue
            machine = info.machine or Machine()
            cores = f"{machine.cores} cores" if machine.cores else ""
            storage = drive(info.storage) if info.storage else ""
            return ", ".join(filter(None, (machine.cpu, cores, storage)))
        return ""


def open_search(path: Path) -> SearchReading:
    """Read what `replayer autoscale` recorded.

    Raises:
        InputError: the file is no such record, or the search took no step.
    """
    try:
        text = path.read_bytes()
        content = msgspec.json.decode(text, type=SearchContent)
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"is not a record that `replayer autoscale` wrote: {error}"
        raise InputError(problem, "name its autoscale.json", subject=path) from None
    if not content.autoscaling_stats:
        raise InputError("its search took no step", "repeat the search", subject=path)
    return SearchReading(path, content, msgspec.json.decode(text))


def is_search(path: Path) -> bool:
    """Return whether a path is a JSON file: sweeps are Parquet, runs are directories."""
    return path.is_file() and path.suffix == ".json"


def tabulate_steps(search: SearchReading) -> pl.DataFrame:
    """Return the steps as a table, by users."""
    rows = [
        {
            "users": f"{step.users:,}",
            "trials": step.trials,
            f"{search.label}, {search.unit or 'value'}": step.value,
            "from": None if step.interval is None else step.interval[0],
            "to": None if step.interval is None else step.interval[1],
            "samples": step.n,
            "NVMe GiB/s": step.throughput_gib_s,
            "NVMe read P95, ms": step.p95_ms,
            "next": step.decision if step.evidence else f"{step.decision}: too few samples",
        }
        for step in search.steps
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
