"""The evidence that doubts are derived from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.log.steadiness import Steadiness
from analysis.runs.run import Doubt
from analysis.runs.samples import Moved
from replayer.schema import Conditions, PredictionInfo, RunInfo

Values = Mapping[str, Any]
"""Metrics by name: numbers, None, or the text of `bottleneck`."""


@dataclass(frozen=True)
class Evidence:
    """The evidence that doubts are derived from.

    Attributes:
        infos: run.json of each rank.
        is_running: whether each rank's process is still running.
        values: the metrics.
        nvme: bytes that the nvme tier read and wrote, by its log.
        device: bytes that the devices under the cache directories moved; None if not counted.
        process: bytes that the kernel moved on devices for the replayer's processes; None if the
            kernel does not count them.
        host_cores: the cores of all hosts; None if run.json does not name them.
        causes: failed moves by cause, from the log's column `error`.
        steadiness: when the run was steady; None if that is not known.
        is_steady_window: whether the window begins where the run became steady.
    """

    infos: list[RunInfo]
    is_running: list[bool]
    values: Values
    nvme: Moved
    device: Moved | None
    process: Moved | None
    host_cores: int | None
    causes: Mapping[str, int] = field(default_factory=dict)
    steadiness: Steadiness | None = None
    is_steady_window: bool = False

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
        return self.conditions.devices.has_simulated_nvme or "nvme" in (self.conditions.devices.throttle or {})

    @property
    def devices(self) -> set[tuple[str | None, str | None]]:
        """The host and the device of each cache directory."""
        return {(info.host, info.device) for info in self.infos}


Found = Iterator[Doubt]
"""The doubts that a check yields."""
