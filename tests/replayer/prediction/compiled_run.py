"""Runs on the compiled computed clock, and their logs next to those of the oracle."""

from typing import Any

import numpy as np

from replayer.planning.executing import make_settings
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.schema import MOVES, WAITS
from tests.replayer.prediction.oracle import Prediction
from tests.replayer.prediction.worlds import World
from tracegen.schema import ENUMS

OF_TRACE = ("request_id", "session_id", "user_id", "turn", "step", "qos", "phase", "source")


def executed(world: World) -> tuple[list[dict[str, Any]], dict[str, int], list[tuple[int, ...]]]:
    """The log of compiled code, its state at the end, and the moves of the ops that it executed."""
    records: list[Any] = []
    rows: list[Any] = []
    plan = world.plan()
    chosen = make_settings(plan, world.verify, world.chunk, world.window, world.span)  # type: ignore[arg-type]
    engine = VirtualEngine(plan, chosen, world.profile.struct())
    engine.run(lambda some, _errors, others: (records.append(some.copy()), rows.append(others.copy())))
    state = engine.state()
    told = {name: int(getattr(state, name)) for name, *_ in state._fields_}
    engine.close()
    names = records[0].dtype.names
    log = [dict(zip(names, one, strict=True)) for one in np.concatenate(records).tolist()]
    return log, told, [tuple(row) for row in np.concatenate(rows).tolist()]


def as_records(world: World, prediction: Prediction) -> list[dict[str, Any]]:
    """The oracle's log with all the columns of compiled code."""
    batch = world.batch
    tokens = dict(zip(batch["key"].tolist(), batch["tokens"].tolist(), strict=True))
    at = np.flatnonzero(batch["user_id"] < world.users).tolist()
    found = []
    for row in prediction.rows:
        one = dict(vars(row))
        i = at[one.pop("made_for")]
        one |= {name: int(batch[name][i]) for name in OF_TRACE}
        one |= {
            "op": ENUMS["op"].index(row.op), "move": MOVES.index(row.move), "warmup": int(row.warmup), "error": -1, "status": 0,
            "waited_for": -1 if row.waited_for is None else WAITS.index(row.waited_for), "tokens": tokens[row.key],
            "new_tokens": 0 if row.seq else int(batch["new_tokens"][i]),
        }  # fmt: skip
        found.append(one)
    return found


def differences(world: World, prediction: Prediction) -> list[str]:
    """What is not the same, a line for each."""
    found, state, moves = executed(world)
    expected = as_records(world, prediction)
    lines = []
    for i, (one, other) in enumerate(zip(found, expected, strict=False)):
        wrong = {name: (one[name], other[name]) for name in one if one[name] != other[name]}
        if wrong:
            lines.append(f"row {i} (op {other['op_id']}.{other['seq']}), found and expected: {wrong}")
    if len(found) != len(expected):
        lines.append(f"{len(found)} rows, not {len(expected)}")
    told = prediction.state
    for name in ("cut_ns", "stopped_ns", "issued_ns", "ended_ns", "steady_ns", "executed", "retired"):
        value = getattr(told, name)
        missing = 0 if name == "cut_ns" else -1
        if state[name] != (missing if value is None else value):
            lines.append(f"state {name}: {state[name]}, not {value}")
    if sum(1 for _ in moves) != sum(len(task.moves) for task in prediction.retired):
        lines.append(f"{len(moves)} moves of executed ops")
    return lines
