"""A trace whose users ask in a closed loop, so that the load that a tier of known speed carries can be computed."""

from pathlib import Path

import numpy as np

from tests.support import traces
from tracegen.schema import Trace

MIB_S, TOKENS, THINK_S = 400, 1024, 0.15
BYTES = TOKENS * 24576  # of tiny-1b
# Ms until an answer, and the users with which one takes so long
TARGET_MS, MOST_USERS = 420, 9.5
assert round((TARGET_MS / 1e3 + THINK_S) * MIB_S * 2**20 / BYTES, 1) == MOST_USERS


def write_closed_loop(path: Path, users: int, turns: int) -> Trace:
    """Write a trace in which each user stores an object, then reads it again and again, THINK_S ± 10% apart."""
    words = np.random.Philox(key=1).random_raw(users * turns) >> np.uint64(11)
    pauses = ((0.9 + 0.2 * words / 2.0**53) * THINK_S * 1e9).astype(np.int64).reshape(turns, users)
    pauses[0] = np.linspace(0, 2 * THINK_S * 1e9, users).astype(np.int64)
    at = np.cumsum(pauses, axis=0).ravel()
    turn, user = (grid.ravel() for grid in np.meshgrid(np.arange(turns), np.arange(users), indexing="ij"))
    order = np.lexsort((user, at))
    turn, user, at, pause = turn[order], user[order], at[order], pauses.ravel()[order]
    steps = [("w" if first == 0 else "r", int(key), TOKENS) for first, key in zip(turn, user, strict=True)]
    return traces.write(
        path,
        traces.columns(
            steps, requests=range(len(steps)), time_ns=at, user_id=user, session_id=user, turn=turn + 1,
            new_tokens=[0] * len(steps), qos=user % 3, think_ns=np.where(turn == 0, 0, pause),
        ),
        counts={"users": users},
    )  # fmt: skip


# The profile of such a drive
PIPE = """
profile_version = 2
name = "pipe"
kind = "data sheet"
source = "made up: one pipe that all reads and writes share, and nothing else"

[cpu]
cores = 1000.0
make_ns_per_byte = 0.0
check_ns_per_byte = 0.0
move_us = 0.0

[nvme]

[nvme.read]
in_flight = [1.0, 100000.0]
open_us = [0.0, 0.0]
latency_us = [0.0, 0.0]
bandwidth_gb_s = [RATE, RATE]

[nvme.write]
in_flight = [1.0, 100000.0]
open_us = [0.0, 0.0]
latency_us = [0.0, 0.0]
bandwidth_gb_s = [RATE, RATE]
remove_us = [0.0, 0.0]
""".replace("RATE", f"{MIB_S * 2**20 / 1e9}")
