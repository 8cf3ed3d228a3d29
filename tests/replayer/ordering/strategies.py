"""Random traces, loads and devices for the tests of orders."""

from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning.order import Device, Order
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import PlanOptions
from replayer.planning.trace_selection import Selection
from tests.support import traces
from tests.support.arrangements import arranged
from tracegen.schema import DTYPES, ENUMS, Columns

UNIT = 1000  # bytes per token, so that transfers take microseconds


rows = st.lists(
    st.tuples(
        st.integers(0, 4),  # user
        st.booleans(),  # a new request
        st.booleans(),  # a new step
        st.sampled_from("wrrrrddx"),
        st.integers(0, 9),  # key
        st.integers(0, 3),  # time since the last op, in microseconds
        st.integers(0, 2),  # class
        st.integers(0, 4),  # think time
    ),
    min_size=1,
    max_size=60,
)
bandwidth = st.sampled_from([10**8, 333_333_333, 10**9])
device = st.builds(
    Device, bandwidth, bandwidth, st.integers(1, 4), st.sampled_from([0, 700, 5000]), st.sampled_from([0, 900])
)
capacity = st.sampled_from([0, 3, 5, 9])
headrooms = st.sampled_from(["1", "0.8", "0.5"])
capacities = st.tuples(capacity, capacity, st.sampled_from([0, 4, 12, None])).filter(lambda u: any(x != 0 for x in u))
paces = st.builds(
    Pace,
    st.sampled_from(["asap", "closed", "open"]),
    st.sampled_from([1, 3.7]),
    st.sampled_from([0, 0.002]),
    st.sampled_from([None, 1e6 / 3]),
    st.sampled_from([1, 2, None]),
)
demand = st.builds(Demand, paces, st.integers(1, 6), st.sampled_from([None, 1, 2]))


def columns(picks: list[Any], sizes: list[int]) -> Columns:
    """Ops of a few users, whose requests follow one another, as a sound trace."""
    keys, users = dict[int, int](), dict[int, int]()  # as numbered by first appearance
    requests, turns, classes, steps, now = dict[int, int](), dict[int, int](), dict[int, int](), dict[int, int](), 0
    made: list[dict[str, int]] = []
    for picked, new, next_step, op, drawn, gap, qos, think in picks:
        user = users.setdefault(picked, len(users))
        first = user not in requests or new
        pause = think * 1000 if first and user in requests else 0
        if first:
            requests[user], steps[user] = len(classes), 0
            turns[user] = turns.get(user, 0) + 1
            classes[requests[user]] = qos
        elif next_step:
            steps[user] += 1
        before = bool(made) and (user, requests[user]) < (made[-1]["user_id"], made[-1]["request_id"])
        wait = max(gap, 1) if before else gap  # ops of one time are sorted by user
        now += wait * 1000
        name, phase = traces.OPS[op]
        name = "read" if name == "write" else name
        if drawn not in keys:
            name, keys[drawn] = "write", len(keys)
        made.append({
            "op_id": len(made), "time_ns": now, "request_id": requests[user], "session_id": user, "user_id": user,
            "turn": turns[user], "step": steps[user], "qos": classes[requests[user]],
            "phase": ENUMS["phase"].index(phase), "op": ENUMS["op"].index(name), "source": 0, "key": keys[drawn],
            "tokens": sizes[drawn], "new_tokens": wait * (drawn % 2), "think_ns": pause,
        })  # fmt: skip
    return {name: np.array([op[name] for op in made]).astype(kind) for name, kind in DTYPES.items()}


def options(
    limits: Any,
    load: Demand,
    devices: Any,
    promote: bool,
    lookup: Any,
    headroom: str,
    users: int,
    arrangement: Any = "waterfall",
) -> PlanOptions:
    gib = [None if limit is None else Decimal(limit * UNIT) / 2**30 for limit in limits]
    return PlanOptions(
        TokenBytes(UNIT), (gib[0] or Decimal(0), gib[1] or Decimal(0), gib[2]), headroom=Decimal(headroom),
        lookup=lookup, arrangement=arranged(arrangement, promote), order=Order("reference", "test", devices), demand=load,
        selection=Selection(users=users),
    )  # fmt: skip
