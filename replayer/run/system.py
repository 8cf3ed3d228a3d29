"""The systems that execute a plan: open tiers on the real clock, or a model on a computed one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from replayer.bindings.compiled import State
from replayer.engine.engine import Engine
from replayer.engine.move_executor import MoveExecutor
from replayer.machine.device_counters import Sampler
from replayer.options.settings import Settings
from replayer.planning.counts import MoveTotals
from replayer.planning.executing import Flush
from replayer.planning.plan import Plan
from replayer.record.run_directory import RunDirectory
from replayer.record.run_info import Warning  # noqa: A004 (run.json's word)
from replayer.run.opening import OpenTiers
from replayer.tiers.payload import Payload

_DELIVERED_SHARE: Final = 0.9  # of the bytes read: a device that delivered less did not serve all


class ExecutionEngine(Protocol):
    """An execution of a plan, as `Engine` and `VirtualEngine` make it."""

    def run(self, flush: Flush, poll: Callable[[], None]) -> None:
        """Execute the plan to its end, or until a limit or an exception of `poll` ends the run."""

    def state(self) -> State:
        """Return the counters and times of the execution so far."""

    def totals(self) -> MoveTotals:
        """Return sums over the ops executed so far."""

    def unfinished(self) -> NDArray[Any]:
        """Return the requests that were due and are not done, of dtype UNFINISHED."""

    def close(self) -> None:
        """Free memory."""


class System:
    """A system without a clock and counters of its own: predictions are made on it.

    Args:
        engine: executes the plan.

    Attributes:
        engine: as passed.
    """

    def __init__(self, engine: ExecutionEngine) -> None:
        self.engine = engine

    @property
    def began_ns(self) -> int:
        """perf_counter_ns() at the log's time 0; 0 if that time has not come, or is not real."""
        return 0

    @property
    def causes(self) -> Mapping[str, int]:
        """Number of moves that failed, by cause."""
        return {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record counters inside the context."""
        yield

    def run(self, flush: Flush, poll: Callable[[], None]) -> None:
        """Run the engine to its end."""
        self.engine.run(flush, poll)

    def stop_waiting(self) -> None:
        """End waits inside tiers: the run is being stopped."""

    def write_counters(self, directory: RunDirectory) -> None:
        """Write the counters recorded since the last call, if it is time to."""

    def write_last_counters(self, directory: RunDirectory) -> None:
        """Write all counters that were recorded.

        Raises:
            OSError: they cannot be written.
        """

    def judge_reads(self) -> Warning | None:
        """Return a warning if the counters say that the device did not serve all reads."""
        return None

    def close(self) -> None:
        """Free the memory of the engine."""
        self.engine.close()


class MeasuredSystem(System):
    """Open tiers, on the real clock, with a thread that samples the kernel's counters.

    Args:
        plan: the plan to execute.
        settings: of the run.
        tiers: open.
        payload: makes and verifies bytes.
    """

    def __init__(self, plan: Plan, settings: Settings, tiers: OpenTiers, payload: Payload) -> None:
        self._tiers = tiers
        self._engine = Engine(
            plan,
            tiers.all,
            payload,
            tiers.staging,
            MoveExecutor(tiers.all, payload, settings.devices.verify),
            settings.devices.verify,
            settings.chunk,
            settings.window,
            settings.span,
        )
        super().__init__(self._engine)
        self._sampler = Sampler(
            tiers.block_device(),
            own_io=tiers.io_is_counted(),
            run_delay_ns=self._engine.run_delay_ns,
        )

    @property
    def began_ns(self) -> int:
        """perf_counter_ns() at the log's time 0; 0 if that time has not come."""
        return self._engine.began_ns

    @property
    def causes(self) -> Mapping[str, int]:
        """Number of moves that failed, by cause."""
        return self._engine.causes

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Sample counters inside the context."""
        with self._sampler:
            yield

    def run(self, flush: Flush, poll: Callable[[], None]) -> None:
        """Run the engine to its end; the sampler's intervals begin at the log's time 0."""
        self._engine.run(flush, poll, begun=self._sampler.start)

    def stop_waiting(self) -> None:
        """End the waits of throttled tiers."""
        self._tiers.stop_waiting()

    def write_counters(self, directory: RunDirectory) -> None:
        """Write device.parquet anew, if it is time to."""
        if self._sampler.due():
            directory.write_device(self._sampler.rows)

    def write_last_counters(self, directory: RunDirectory) -> None:
        """Write device.parquet with the last samples.

        Raises:
            OSError: it cannot be written.
        """
        if self._sampler.rows:
            directory.write_device(self._sampler.rows)

    def judge_reads(self) -> Warning | None:
        """Return a warning if the device did not serve all reads."""
        if not self._sampler.rows:
            return None
        delivered = self._sampler.read_bytes()
        read = self._engine.state().nvme_read_bytes
        if delivered is None or delivered >= _DELIVERED_SHARE * read:
            return None
        text = (
            f"a cache served reads: the nvme tier read {read / 2**30:.2f} GiB, the device"
            f" delivered {delivered / 2**30:.2f} GiB ({1 - delivered / read:.0%} less)."
        )
        return Warning(kind="page cache served reads", text=text)
