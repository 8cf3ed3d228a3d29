"""What doubts are drawn from, and what a doubt is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from replayer.schema import Conditions, RunInfo

Values = Mapping[str, Any]
"""Metrics by name: numbers, None, or the text of `bottleneck`."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a number, or not quite.

    Attributes:
        kind: one word or two, the same for all doubts of its sort; docs/doubts.md lists them.
        text: what was found, with its figures.
        advice: what to do about it.
        invalidates: whether the run's numbers must not be published.
    """

    kind: str
    text: str
    advice: str
    invalidates: bool = False


@dataclass(frozen=True)
class Moved:
    """Bytes of one that counts, up to its last look: a run that was killed goes on after that.

    Attributes:
        read_bytes: warm-up included.
        written_bytes: the same of writes.
        steady_read_bytes: read since the warm-up ended; of counters, which do not know single reads, at most.
    """

    read_bytes: int
    written_bytes: int
    steady_read_bytes: int


@dataclass(frozen=True)
class Evidence:
    """What doubts are drawn from.

    Attributes:
        infos: run.json of each rank.
        is_running: whether each rank's process is still at work.
        values: the metrics.
        nvme: what the nvme tier read and wrote by its log.
        device: what the devices under the caches did; None where nothing counted it.
        process: what the kernel did on devices for the replayer's processes; None where it does not count that.
        host_cores: all that the hosts have; None where run.json does not say.
        causes: of moves that failed, as the log's column `error` has them; how many.
        lost: per side, of moves that touched the nvme tier and no gpu tier: how many, Σ (end − start) in ns, and
            what of it was neither reading nor writing.
    """

    infos: list[RunInfo]
    is_running: list[bool]
    values: Values
    nvme: Moved
    device: Moved | None
    process: Moved | None
    host_cores: int | None
    causes: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def conditions(self) -> Conditions:
        """The conditions of the first rank; `checks` compares them with those of the others."""
        return self.infos[0].conditions

    @property
    def stands_in(self) -> bool:
        """Whether the nvme tier is no device, or a slowed one: nothing is measured of it."""
        return self.conditions.layout == "null" or "nvme" in (self.conditions.throttle or {})

    @property
    def devices(self) -> set[tuple[str | None, str | None]]:
        """The host and the device of each cache directory."""
        return {(info.host, info.device) for info in self.infos}


Found = Iterator[Doubt]
