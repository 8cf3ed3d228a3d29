"""Runs on the compiled computed clock, and their logs next to those of the oracle."""

from typing import Any

import numpy as np

from replayer.planning.executing import make_settings
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.schema import MOVES, WAITS
from tests.replayer.prediction.oracle import Prediction
from tests.replayer.prediction.worlds import World, foretold
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


def check(world: World) -> None:
    """Compiled code and the oracle have the same log, end in the same state, and executed as many moves."""
    prediction = foretold(world)
    found, state, moves = executed(world)
    for row, expected in zip(found, as_records(world, prediction), strict=True):
        assert row == expected
    told = vars(prediction.state)
    missing = dict.fromkeys(told, -1) | {"cut_ns": 0}
    assert {name: state[name] for name in told} == {
        name: missing[name] if value is None else value for name, value in told.items()
    }
    assert len(moves) == sum(len(task.moves) for task in prediction.retired)
