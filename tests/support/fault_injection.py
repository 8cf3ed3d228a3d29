"""Faults of a run's reads and writes: what the compiled core calls, for as long as a test lasts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.support import system_calls
from tests.support.system_calls import Transfer

Around = Callable[[Transfer, int, int, int, int], int]
"""The true call, and what it is called with."""


def path_of(descriptor: int) -> Path:
    """Which file a call is about."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def key_of(descriptor: int) -> int:
    """Which object it is about, where each has a file of its own."""
    return int(path_of(descriptor).stem, 16)


@contextmanager
def injected(**calls: Around) -> Iterator[None]:
    """Have the core call these for `pread` and `pwrite`, from the workers' own threads; io_uring goes past them."""
    with ExitStack() as stack:
        for name, around in calls.items():
            stack.enter_context(system_calls.replaced(name, partial(around, getattr(system_calls, name))))
        yield
