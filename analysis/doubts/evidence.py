"""The evidence that doubts are derived from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analysis.log.steadiness import Steadiness
from analysis.runs.run import Doubt, Run
from analysis.runs.samples import Moved
from replayer.schema import Conditions, PredictionInfo, RunInfo

# Metrics by name: numbers, None, or the text of `bottleneck`.
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """The evidence that doubts are derived from.

    Attributes:
        opened: the run.
        values: its metrics.
        steadiness: when it was steady; None if that is not known.
    """

    opened: Run
    values: Values
    steadiness: Steadiness | None = None

    @property
    def infos(self) -> list[RunInfo]:
        """The run.json of each rank."""
        return self.opened.infos

    @property
    def conditions(self) -> Conditions:
        """The conditions of the first rank; `checks` compares them with those of the others."""
        return self.infos[0].conditions

    @property
    def prediction(self) -> PredictionInfo | None:
        """The profile that the run was predicted from; None if it was measured."""
        return self.infos[0].prediction

    @property
    def stands_in(self) -> bool:
        """Whether the nvme tier is emulated or throttled: its figures are not those of a device."""
        return self.conditions.has_simulated_nvme or "nvme" in (self.conditions.throttle or {})

    @cached_property
    def nvme(self) -> Moved:
        """The bytes that the nvme tier read and wrote, by its log."""
        return self.opened.sum_moved()

    @cached_property
    def device(self) -> Moved | None:
        """The bytes that the devices under the cache directories moved; None if not counted."""
        return self.opened.sum_counted(by_process=False)

    @cached_property
    def process(self) -> Moved | None:
        """The bytes that devices moved for the replayer's processes; None if the kernel does not count them."""
        return self.opened.sum_counted(by_process=True)


# The doubts that a check yields.
Found = Iterator[Doubt]
