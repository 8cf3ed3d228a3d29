"""Runs on the compiled computed clock, and their logs next to those of the oracle."""

from typing import Any

import numpy as np

from replayer.bindings.compiled import ProfileStruct, StationStruct
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.schema import MOVES, WAITS
from tests.replayer.prediction.oracle import Prediction
from tests.replayer.prediction.worlds import NINE, World
from tracegen.schema import ENUMS

OF_TRACE = ("request_id", "session_id", "user_id", "turn", "step", "qos", "phase", "source")


def fill_station(found: StationStruct, station: dict[str, Any], other_weight: float) -> None:
    points = len(station["in_flight"])
    found.points, found.other_weight, found.has_spread = points, other_weight, int(bool(station["spread"]))
    found.load[:points] = station["in_flight"]
    found.open_ns[:points] = [1000.0 * us for us in station["open_us"]]
    found.latency_ns[:points] = [1000.0 * us for us in station["latency_us"]]
    pairs = zip(station["in_flight"], station["bandwidth_gb_s"], strict=True)
    found.byte_ns[:points] = [load / speed for load, speed in pairs]
    if station["remove_us"]:
        found.remove_ns[:points] = [1000.0 * us for us in station["remove_us"]]
    for i, nine in enumerate(station["spread"]):
        found.spread[i][:] = nine or (1.0,) * NINE


def struct_of(profile: dict[str, Any]) -> ProfileStruct:
    """The drawn profile as compiled code takes it."""
    found = ProfileStruct()
    for stations, tier in zip(found.tier, profile["tiers"], strict=True):
        fill_station(stations[0], tier["read"], tier["writes_on_reads"])
        fill_station(stations[1], tier["write"], tier["reads_on_writes"])
    cpu = profile["cpu"]
    found.cores, found.move_ns = cpu["cores"], 1000.0 * cpu["move_us"]
    found.make_byte_ns, found.check_byte_ns = cpu["make_ns_per_byte"], cpu["check_ns_per_byte"]
    return found


def executed(world: World) -> tuple[list[dict[str, Any]], dict[str, int], list[tuple[int, ...]]]:
    """The log of compiled code, its state at the end, and the moves of the ops that it executed."""
    records: list[Any] = []
    rows: list[Any] = []
    engine = VirtualEngine(
        world.plan(), struct_of(world.profile), world.verify, world.chunk, world.window, world.span  # type: ignore[arg-type]
    )  # fmt: skip
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
    at = {op_id: i for i, op_id in enumerate(batch["op_id"].tolist())}
    found = []
    for row in prediction.rows:
        one = dict(vars(row))
        i = at[row.op_id]
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
