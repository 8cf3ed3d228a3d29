"""Several processes as one run, under mpirun or srun: each has its own log and cache folder."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from replayer.record.columns import RUN_VERSION
from replayer.record.run_info import Clock, RanksInfo, RunInfo
from tracegen.errors import InputError, missing_package

_PINGS: Final = 50
_PATIENCE_S: Final = 10  # for peers that were interrupted, too
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks of its run.

    Attributes:
        rank: number of this process.
        size: number of processes.
        comm: communicator of mpi4py; None if the process is alone.
    """

    rank: int = 0
    size: int = 1
    comm: Any = None

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Do a step on all ranks, which end it together: if one refuses its input, all stop.

        Every rank makes exactly one collective call per step, at its end. Steps must not be nested.

        Raises:
            InputError: on the first rank whose step raised one.
            SystemExit: on all other ranks, with the same exit code and without a message.
        """
        problem: InputError | None = None
        try:
            yield
        except InputError as error:
            problem = error
        # Collective, whether the step failed or not: else the peers would wait here for ever.
        is_refused = self.gather(problem is not None)
        if problem is not None and is_refused.index(True) == self.rank:
            raise problem if self.comm is None else _name_rank(problem, self.rank)
        if any(is_refused):
            raise SystemExit(InputError.exit_code)

    @contextmanager
    def abort_together(self, report: Callable[[BaseException], None] = lambda _error: None) -> Iterator[None]:
        """Abort all ranks if this one dies: the others would otherwise wait for it for ever.

        Errors that all ranks agreed on (`in_step`), and interrupts that reached all of them, pass.

        Args:
            report: shows the error, as the process may not live to do it later.
        """
        try:
            yield
        except (InputError, SystemExit):  # raised on every rank, by in_step
            raise
        except KeyboardInterrupt as error:
            if self.comm is not None and not self._all_arrive():
                self.comm.Abort(getattr(error, "exit_code", 130))
            raise
        except BaseException as error:
            if self.comm is not None:
                report(error)
                self.comm.Abort(getattr(error, "exit_code", 1))
            raise

    def _all_arrive(self) -> bool:
        """Return whether all ranks arrive here, interrupted like this one, before too long."""
        # A blocking barrier would wait for ever for a rank that died.
        barrier = self.comm.Ibarrier()
        deadline = time.monotonic() + _PATIENCE_S
        while not (done := barrier.Test()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return bool(done)

    def count_on_host(self) -> int:
        """Return the number of ranks on this host. Collective."""
        if self.comm is None:
            return 1
        from mpi4py import MPI  # noqa: PLC0415 (an extra)

        return int(self.comm.Split_type(MPI.COMM_TYPE_SHARED).Get_size())

    def gather(self, value: _Value) -> list[_Value]:
        """Return every rank's value, on every rank. Collective."""
        return list(self.comm.allgather(value)) if self.comm is not None else [value]

    def start_clock(self) -> Clock:
        """Let all ranks go at once; return this rank's clock against rank 0's. Collective.

        The offset is found as NTP does, by round trips (RFC 5905, section 8); the shortest of 50
        decides.
        """
        if self.comm is None:
            return Clock(offset_ns=0, round_trip_ns=0)
        offset_ns, round_trip_ns = self._measure_offset()
        self.comm.Barrier()
        return Clock(offset_ns=offset_ns, round_trip_ns=round_trip_ns)

    def _measure_offset(self) -> tuple[int, int]:
        """Return rank 0's clock minus this one's, and the round trip of that ping, in ns."""
        best = (1 << 62, 0)
        for peer in range(1, self.size):
            for _ in range(_PINGS):
                if self.rank == 0:
                    self.comm.recv(source=peer)
                    self.comm.send(time.time_ns(), dest=peer)
                elif self.rank == peer:
                    sent = time.time_ns()
                    self.comm.send(None, dest=0)
                    remote = self.comm.recv(source=0)
                    received = time.time_ns()
                    # The shortest round trip has the least time for the two ways to differ.
                    best = min(best, (received - sent, remote - (sent + received) // 2))
        return (0, 0) if self.rank == 0 else (best[1], best[0])


def _name_rank(problem: InputError, rank: int) -> InputError:
    """Make the same error with the rank in it."""
    subject = f"rank {rank}"
    if problem.subject is not None:
        subject = f"{problem.subject} ({subject})"
    return InputError(problem.problem, problem.remedy, subject=subject, setting=problem.setting)


ALONE: Final = Ranks()


def find_ranks() -> Ranks:
    """Return the ranks that mpirun or srun started.

    Raises:
        InputError: mpi4py or MPI's library is not installed.
    """
    try:
        from mpi4py import MPI  # noqa: PLC0415 (an extra; importing it initialises MPI)
    except (ImportError, RuntimeError) as error:
        raise missing_package(
            "a run of several ranks",
            "mpi4py",
            "mpi",
            reason=str(error).splitlines()[0],
            alternative="and an MPI library",
        ) from None
    return Ranks(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD)


def combine_ranks(infos: list[RunInfo]) -> RanksInfo:
    """Return the run.json above those of the ranks, at the end of a run."""
    failed = [info for info in infos if info.status != "complete"]
    return RanksInfo(
        run_version=RUN_VERSION,
        ranks=len(infos),
        status=failed[0].status if failed else "complete",
        reason="; ".join(f"rank {info.rank}: {info.reason}" for info in failed) or None,
        executed_ops=sum(info.executed.ops for info in infos if info.executed is not None),
        clocks=tuple(info.clock for info in infos if info.clock is not None),
    )
