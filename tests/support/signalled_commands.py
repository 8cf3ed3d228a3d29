"""Commands that get a signal at a chosen point of their work, many in one process: each is a fork of it.

    python -m tests.support.signalled_commands < CASES > RESULTS

CASES: a JSON array of [signal, [module, attribute, ...], "before" or "after" the call, arguments of the command].
RESULTS: a JSON array of [exit code, what was said on stderr].
"""

import functools
import importlib
import json
import os
import signal
import sys
import tempfile
from typing import Any

from tracegen.console.interrupts import end_at_once

# What a command imports late would be imported by every fork anew.
for module in ("tracegen.cli", "analysis.cli", "polars", "pyarrow.parquet"):
    importlib.import_module(module)


def signalled(number: int, where: list[str], when: str) -> None:
    """Have the first call of a function send this process a signal."""
    module, *path, name = where
    owner = functools.reduce(getattr, path, importlib.import_module(module))
    original, calls = getattr(owner, name), []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if when == "before" and len(calls) == 1:
            os.kill(os.getpid(), number)
        done = original(*args, **kwargs)
        if when == "after" and len(calls) == 1:
            os.kill(os.getpid(), number)
        return done

    setattr(owner, name, call)


def run(number: int, where: list[str], when: str, command: list[str]) -> None:
    signalled(number, where, when)
    sys.argv = command
    end_at_once()
    importlib.import_module(f"{command[0]}.cli").main()


def result(case: Any) -> tuple[int, str]:
    with tempfile.TemporaryFile("w+") as said:
        if (child := os.fork()) == 0:
            for stream in (1, 2):
                os.dup2(said.fileno(), stream)
            run(*case)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read()


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # as from a terminal, whoever runs the tests
        signal.signal(one, signal.SIG_DFL)
    json.dump([result(case) for case in json.load(sys.stdin)], sys.stdout)
