"""Many processes as one run, under mpirun or srun: each rank is a client with a log and a cache folder of its own."""

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tracegen.errors import InputError, ToolError, missing_package

_PINGS: Final = 50
_PATIENCE_S: Final = 10


@dataclass(frozen=True)
class Ranks:
    """This process among its peers.

    Attributes:
        rank, size: number of this one, and how many there are.
        comm: of mpi4py; None where the process is alone.
    """

    rank: int = 0
    size: int = 1
    comm: Any = None

    def agree(self, problem: str | None) -> None:
        """Wait for all ranks to be ready; one that is not stops all, and says why.

        Raises:
            InputError: this is the first rank that has a problem.
            SystemExit: another is.
        """
        problems = self.gather(problem)
        first = next((rank for rank, found in enumerate(problems) if found is not None), None)
        if first == self.rank:
            raise InputError(f"rank {first}: {problem}" if self.comm is not None else str(problem))
        if first is not None:
            raise SystemExit(2)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What ends one rank and not all would leave the others waiting for it for ever: it ends them, too."""
        try:
            yield
        except (InputError, SystemExit):  # on every rank, as they have agreed
            raise
        except BaseException as error:
            if self.comm is not None:
                if isinstance(error, ToolError):
                    sys.stderr.write(f"Error: {error}\n")
                elif not isinstance(error, KeyboardInterrupt):
                    traceback.print_exc()
                if not isinstance(error, KeyboardInterrupt):
                    self.comm.Abort(getattr(error, "exit_code", 1))
                elif not self._all_here():
                    self.comm.Abort(getattr(error, "exit_code", 130))
            raise

    def _all_here(self) -> bool:
        """Whether all ranks come here, interrupted like this one and closed, before too long."""
        barrier, until = self.comm.Ibarrier(), time.monotonic() + _PATIENCE_S
        while not (done := barrier.Test()) and time.monotonic() < until:
            time.sleep(0.02)
        return bool(done)

    def on_host(self) -> int:
        """How many of the ranks share this host."""
        if self.comm is None:
            return 1
        from mpi4py import MPI  # noqa: PLC0415 (an extra)

        return int(self.comm.Split_type(MPI.COMM_TYPE_SHARED).Get_size())

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""
        return list(self.comm.allgather(value)) if self.comm is not None else [value]

    def start(self) -> dict[str, int]:
        """Let all ranks go at once; how this rank's clock stands to rank 0's, in nanoseconds.

        The offset is found as NTP does, by round trips (RFC 5905, section 8), the shortest of 50 deciding.
        """
        if self.comm is None:
            return {"offset_ns": 0, "round_trip_ns": 0}
        offset, trip = self._offset()
        self.comm.Barrier()
        return {"offset_ns": offset, "round_trip_ns": trip}

    def _offset(self) -> tuple[int, int]:
        """(rank 0's clock minus this one's, the round trip it was found by)."""
        best = (1 << 62, 0)
        for peer in range(1, self.size):
            for _ in range(_PINGS):
                if self.rank == 0:
                    self.comm.recv(source=peer)
                    self.comm.send(time.time_ns(), dest=peer)
                elif self.rank == peer:
                    sent = time.time_ns()
                    self.comm.send(None, dest=0)
                    there = self.comm.recv(source=0)
                    back = time.time_ns()
                    best = min(best, (back - sent, there - (sent + back) // 2))
        return (0, 0) if self.rank == 0 else (best[1], best[0])


def combined(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """What the run.json above the ranks' own says at the end, from theirs."""
    failed = [f"rank {info['rank']}: {info['reason']}" for info in infos if info["status"] != "complete"]
    return {
        "ranks": len(infos),
        "status": next((info["status"] for info in infos if info["status"] != "complete"), "complete"),
        "reason": "; ".join(failed) or None,
        "executed_ops": sum(info["executed"]["ops"] for info in infos),
        "clocks": [info["clock"] for info in infos],
    }


ALONE: Final = Ranks()


def world() -> Ranks:
    """The ranks that mpirun or srun started.

    Raises:
        InputError: mpi4py or MPI's library is not installed.
    """
    try:
        from mpi4py import MPI  # noqa: PLC0415 (an extra; importing it initialises MPI)
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise missing_package("--ranks", "mpi4py", "mpi", reason=reason, alternative="and an MPI library") from None
    return Ranks(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD)
