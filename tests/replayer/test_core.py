"""The compiled core: its structures as Python declares them, and free room as extents."""

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.bindings import compiled
from tests.support import compiled_core
from tests.support.paths import ROOT

HEADERS = [(ROOT / "replayer" / "core" / name).read_text() for name in ("core.h", "engine.h")]
C_TYPES: dict[str, Any] = {
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "int8_t": ctypes.c_int8, "uint8_t": ctypes.c_uint8, "int": ctypes.c_int, "double": ctypes.c_double, "char": ctypes.c_char,
}  # fmt: skip
OURS: dict[str, Any] = {
    "TraceOp": compiled.TRACE_OP, "TraceRequest": compiled.TRACE_REQUEST, "TraceKey": compiled.TRACE_KEY,
    "Workload": compiled.WorkloadStruct, "PlannedMove": compiled.PLANNED, "TierRules": compiled.TierRulesStruct, "Rules": compiled.Rules,
    "Account": compiled.AccountStruct,
    "Totals": compiled.TotalsStruct, "Load": compiled.Load, "Op": compiled_core.Op, "Move": compiled_core.MoveStruct,
    "Unfinished": compiled.UNFINISHED, "Device": compiled.DeviceStruct, "ServingRules": compiled.ServingStruct, "PlannedOp": compiled.PLANNED_OP, "Counts": compiled.CountsStruct, "Counter": compiled.CounterStruct, "Fault": compiled.FaultStruct,
    "BlockIO": compiled.BlockIOStruct, "Extent": compiled.Extent, "Object": compiled.ObjectStruct,
    "Settings": compiled.EngineSettings, "Job": compiled.Job, "Record": compiled.RECORD, "State": compiled.State,
    "Station": compiled.StationStruct, "Profile": compiled.ProfileStruct,
}  # fmt: skip
RENAMED = {
    "Job": {"from": "source", "to": "target"}, "Move": {"from": "source", "to": "target"},
    "PlannedMove": {"kind": "move", "from": "from_tier", "to": "to_tier"}, "Object": {"fd": "descriptor"},
}  # fmt: skip
NOT_SHARED = {"IoRequest", "TraceColumns"}  # only between tiers.c and uring.c; only pointers


def declared() -> dict[str, type[ctypes.Structure]]:
    """Lay out the structures that the headers declare, from their text."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(HEADERS), flags=re.S)
    counted = re.findall(r"enum \{ (\w+(?:, \w+)*), (TIERS|MOVE_KINDS) \};", text)
    constants = {name: len(words.split(", ")) for words, name in counted}
    assert len(constants) == 2
    for name, value, following in re.findall(r"enum \{ (\w+) = (\d+)(?:, (\w+))? \};", text):
        constants |= {name: int(value), following: int(value) + 1}
    found: dict[str, type[ctypes.Structure]] = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.S):
        fields = []
        for kind, names in re.findall(r"(?:const )?(\w+)\s+([^;]+);", body):
            for declarator in names.split(","):
                pointer, field, bounds = re.fullmatch(r"\s*(\*?)(\w+)((?:\[\w+\])*)\s*", declarator).groups()  # type: ignore[union-attr]
                made = ctypes.c_void_p if pointer else C_TYPES.get(kind) or found[kind]
                for bound in reversed(re.findall(r"\[(\w+)\]", bounds)):
                    made = made * int(constants.get(bound, bound))
                fields.append((RENAMED.get(name, {}).get(field, field), made))
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return {name: made for name, made in found.items() if name not in NOT_SHARED}


def layout(kind: Any) -> list[tuple[str, int, int, str]]:
    """List (field, offset, bytes, type of elements) of a ctypes structure or a numpy dtype."""
    if isinstance(kind, np.dtype):
        assert kind.fields is not None
        members = [(name, *kind.fields[name][:2]) for name in kind.names or ()]
        return [(name, offset, field.itemsize, field.str) for name, field, offset in members]
    return [
        (name, getattr(kind, name).offset, getattr(kind, name).size, element(field)) for name, field in kind._fields_
    ]


def element(kind: Any) -> str:
    while issubclass(kind, ctypes.Array):
        kind = kind._type_
    return f"{ctypes.sizeof(kind)} bytes" if issubclass(kind, ctypes.Structure) else str(np.dtype(kind).str)


def test_all_structures_are_compared() -> None:
    assert list(declared()) == list(OURS)


@pytest.mark.parametrize(("number", "name"), list(enumerate(OURS)))
def test_structures_are_those_of_the_core(number: int, name: str) -> None:
    """Fields, offsets, sizes and types are as in the headers; the total size is the compiler's."""
    ours, theirs = OURS[name], declared()[name]
    assert layout(ours) == layout(theirs)
    size = ours.itemsize if isinstance(ours, np.dtype) else ctypes.sizeof(ours)
    assert size == ctypes.sizeof(theirs) == compiled_core.sizes()[number]
    assert len(compiled_core.sizes()) == len(OURS)


def lengths(units: set[int]) -> list[int]:
    runs, last = list[int](), -2
    for unit in sorted(units):
        if unit == last + 1:
            runs[-1] += 1
        else:
            runs.append(1)
        last = unit
    return runs


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 16), st.integers(1, 40)), max_size=120)


@settings(max_examples=300)
@given(st.integers(1, 300), steps, st.sampled_from([1, 2, 5, 400]))
def test_extents_give_out_all_free_room_and_never_twice(
    units: int, steps: list[tuple[bool, int, int]], most: int
) -> None:
    room, free = compiled_core.Extents(units), set(range(units))
    held: list[list[tuple[int, int]]] = []
    for gives, which, size in steps:
        assert room.room() == len(free)
        if gives and held:
            for start, count in held.pop(which % len(held)):
                room.give(start, count)
                free.update(range(start, start + count))
            continue
        wanted = size * units // 80 + 1
        taken = room.take(wanted, most)
        if wanted > len(free):
            assert taken == [], "not so much is free"
        elif taken is None:
            assert most < len(free), "it cannot take more runs than there are units"
            assert most < len(lengths(free)), "so many runs would do"
        else:
            assert taken
            assert len(taken) <= most
            assert sum(count for _, count in taken) == wanted
            for start, count in taken:
                run = set(range(start, start + count))
                assert count > 0
                assert run <= free, "it was not free"
                free -= run
            held.append(taken)
    for extents in held:
        for start, count in extents:
            room.give(start, count)
    assert room.room() == units
    assert room.take(units, 1) == [(0, units)], "one run again"
    assert room.room() == 0
    assert room.take(1, 1) == []


@given(st.permutations(range(40)))
def test_freed_neighbours_are_joined_in_any_order(order: list[int]) -> None:
    room = compiled_core.Extents(40)
    taken = [room.take(1, 1) for _ in range(40)]
    assert sorted(start for extents in taken for start, _ in extents or []) == list(range(40))
    free = set[int]()
    for start in order:
        room.give(start, 1)
        free.add(start)
        longest = max(lengths(free))
        extents = room.take(longest, 1)
        assert extents is not None, "the longest run is one, not its pieces"
        room.give(*extents[0])
    assert room.take(40, 1) == [(0, 40)]


def test_an_empty_room_gives_nothing() -> None:
    room = compiled_core.Extents(0)
    assert room.take(1, 4) == []
    assert room.room() == 0
