"""The summary of a run: its doubts, its origin and its metrics, as an immutable value and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from analysis.doubts.predictions import describe_errors, describe_profile
from analysis.log.quantiles import QUANTILES
from analysis.metrics.catalogue import describe
from analysis.runs.run import Doubt
from replayer.schema import Conditions, PredictionInfo, Status, Storage, to_plain

# Metrics by name, the unit last in the name; None is a metric that the run does not have.
Metrics = dict[str, float | None]

_TAIL: Final = 0.95
# Attributes of a summary that are in its JSON as they are.
_PLAIN: Final = (
    *("status", "executed_ops", "trace_fingerprint", "plan_fingerprint", "users", "zero_ns", "ended_ns", "host_cores"),
)
NOTE: Final = "(…): a percentile of too few samples, fewer than 100 for P95, 500 for P99."


@dataclass(frozen=True)
class MachineName:
    """The names that tell one machine from another.

    Attributes:
        host: the host's name.
        cpu: its processor.
        cores: the cores that the replayer may use.
        device: the block device under the cache directory.
        profile: the profile of a predicted run, which has no other name; None for a measured run.
    """

    host: str | None
    cpu: str | None
    cores: int | None
    device: str | None
    profile: str | None = None


@dataclass(frozen=True)
class Summary:
    """A run in figures.

    Attributes:
        run: the path that the user named.
        doubts: all doubts, those that invalidate the run first.
        status: the first status of a rank that is not complete.
        executed_ops: the position below which all ops were executed; of several ranks the number of ops.
        cut: where a rank was cut, and by what; None if none was.
        trace_fingerprint: the trace's.
        plan_fingerprint: the plan's, of what was executed.
        conditions: the conditions that all ranks share.
        users: the number of users; None if run.json does not name it.
        zero_ns: the log's time 0 of each rank, in ns since the epoch on rank 0's clock; None if it is not known.
        ended_ns: the end of each rank's last move, on the same clock.
        machine: the machine of the first rank.
        host_cores: the cores of all hosts; None if run.json does not name them.
        storage: the drive of the first rank; None without an nvme tier.
        metrics: all metrics of all ranks together, without the warm-up.
        bottleneck: the part of the system that held the run back; None if nothing was measured.
        prediction: the profile of a predicted run; None if the run was measured.
        more_than: by metric that unfinished requests leave unknown, the value that it exceeds.
    """

    run: str
    doubts: tuple[Doubt, ...]
    status: Status
    executed_ops: int | None
    cut: str | None
    trace_fingerprint: str | None
    plan_fingerprint: str | None
    conditions: Conditions
    users: int | None
    zero_ns: list[int | None]
    ended_ns: list[int | None]
    machine: MachineName
    host_cores: int | None
    storage: Storage | None
    metrics: Metrics
    bottleneck: str | None
    prediction: PredictionInfo | None = None
    more_than: dict[str, float] = field(default_factory=dict)

    @property
    def origin(self) -> tuple[str | int | None, ...] | None:
        """The host and the time 0 of each rank, which tell copies of a run from trials.

        It is None if a time is unknown, and for a predicted run, which has none.
        """
        is_unknown = None in self.zero_ns or self.prediction is not None
        return None if is_unknown else (self.machine.host, *self.zero_ns)

    @property
    def configuration(self) -> tuple[str | None, str]:
        """A key that the trials of one configuration share: the trace's fingerprint and the conditions."""
        return self.trace_fingerprint, str(to_plain(self.conditions))

    @property
    def findings(self) -> list[str]:
        """The texts of the doubts that invalidate the run."""
        return [doubt.text for doubt in self.doubts if doubt.invalidates]

    @property
    def is_valid(self) -> bool:
        """The verdict: whether no doubt invalidates the run."""
        return not any(doubt.invalidates for doubt in self.doubts)

    @property
    def verdict(self) -> str:
        """The verdict in words, if the run is valid."""
        if self.is_outside_profile:
            return "PREDICTED OUTSIDE THE PROFILE"
        return "VALID" if self.prediction is None else "VALID PREDICTION"

    @property
    def is_outside_profile(self) -> bool:
        """Whether it was predicted for objects or loads that its profile is not for."""
        kinds = {doubt.kind for doubt in self.doubts}
        return self.prediction is not None and "outside the profile" in kinds

    @property
    def values(self) -> dict[str, float | str | None]:
        """The metrics and the bottleneck by name."""
        return {**self.metrics, "bottleneck": self.bottleneck}

    def describe_profile(self) -> str:
        """Describe what it was predicted with; empty if it was measured."""
        return describe_profile(self.prediction) if self.prediction else ""

    def describe_errors(self) -> str:
        """Say how far such predictions were off; empty if it was measured."""
        if self.prediction is None:
            return ""
        errors = describe_errors(self.prediction.kind, self.conditions)
        limit = " This one is outside its profile, where errors are not known."
        return errors + (limit if self.is_outside_profile else "")

    @property
    def facts(self) -> Metrics:
        """The numbers of the summary that no log gives."""
        return {name: getattr(self, name) for name in ("executed_ops", "users", "host_cores")}

    @cached_property
    def numbers(self) -> Metrics:
        """The metrics and the other numbers of the summary by name."""
        return self.facts | self.metrics

    def with_doubts(self, *, before: Sequence[Doubt] = (), after: Sequence[Doubt] = ()) -> "Summary":
        """Return the summary with more doubts before and after its own."""
        return replace(self, doubts=(*before, *self.doubts, *after))

    def to_json(self) -> dict[str, Any]:
        """Return the flat object that `analysis summary --json` prints: metrics next to everything else."""
        prediction: dict[str, object] = {"predicted": False}
        if self.prediction is not None:
            errors = self.describe_errors()
            prediction = {"predicted": True, "prediction": to_plain(self.prediction), "prediction_errors": errors}
        machine = self.machine
        return {
            "run": self.run,
            "valid": self.is_valid,
            "findings": self.findings,
            **prediction,
            "doubts": [asdict(doubt) for doubt in self.doubts],
            **{name: getattr(self, name) for name in _PLAIN},
            "cut": self.cut is not None,
            "conditions": to_plain(self.conditions),
            "machine": [machine.host, machine.cpu, machine.cores, machine.device],
            "storage": None if self.storage is None else to_plain(self.storage),
            "more_than": self.more_than,
            **self.values,
        }


def is_thin(metric: str, summary: dict[str, Any]) -> bool:
    """Return whether a metric is a P95 or higher of fewer samples than it needs."""
    described = describe(metric)
    if QUANTILES.get(described.percentile or "", 0) < _TAIL or described.counted_by is None:
        return False
    samples = summary.get(described.counted_by)
    if summary.get(metric) is None or samples is None:
        return False
    return bool(samples < described.least_samples)


def note(metrics: Iterable[str], summaries: Iterable[dict[str, Any]]) -> list[str]:
    """Return NOTE if any of these metrics is in brackets."""
    names = list(metrics)
    return [NOTE] if any(is_thin(name, summary) for summary in summaries for name in names) else []
