"""Executes a plan on a computed clock with `core/prediction.c`."""

from collections.abc import Callable
from typing import Final

from replayer.bindings.compiled import EngineSettings, ProfileStruct, call, reference, refuse_memory
from replayer.planning.executing import CompiledExecution, Flush
from replayer.planning.plan import Plan

_FLUSH_ROWS: Final = 1 << 16

_run = call("prediction_run")
_stop = call("prediction_stop")


class VirtualEngine(CompiledExecution):
    """One execution of a plan on the computed clock of a measured machine; one thread.

    Args:
        plan: the plan to execute.
        settings: of the execution.
        profile: the machine.
    """

    def __init__(self, plan: Plan, settings: EngineSettings, profile: ProfileStruct) -> None:
        super().__init__("prediction", plan, settings, reference(profile))

    def run(self, flush: Flush, poll: Callable[[], None] = lambda: None) -> None:
        """Execute the plan to its end, or until a limit or an exception ends the run.

        Args:
            flush: takes the records, errors and rows since its last call; called every 65,536 rows
                of the log, and at the end.
            poll: called before each flush; an exception that it raises ends the run, after the
                moves in flight.

        Raises:
            RuntimeError: a stage takes longer than the clock counts.
        """
        try:
            while _run(self._handle, _FLUSH_ROWS):
                poll()
                self._flush(flush)
        except BaseException:
            _stop(self._handle)
            _run(self._handle, 1 << 62)
            raise
        finally:
            self._flush(flush)
        refuse_memory(self.state().refused_bytes)
        if self.state().stuck:
            raise RuntimeError("a move takes more than 10^18 ns: mend the profile's numbers")

    def _flush(self, flush: Flush) -> None:
        records, rows = self._take()
        flush(records, {}, rows)
