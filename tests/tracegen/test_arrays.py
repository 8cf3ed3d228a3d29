"""Integer arrays: the table by id against a dictionary, ranges and orders against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracegen.arrays import IdTable, Numbering, positions, ranges, sort_order

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(1, 99), max_size=9)),
        st.tuples(st.just("set"), st.lists(st.integers(0, 40), max_size=5)),
        st.tuples(st.just("trim"), st.lists(st.integers(0, 40), min_size=1, max_size=1)),
    ),
    max_size=25,
)


@given(st.integers(0, 4), steps)
def test_a_table_keeps_every_value_that_may_still_be_asked_for(kept: int, steps: list[tuple[str, list[int]]]) -> None:
    table, expected, low = IdTable(np.int64, kept), dict.fromkeys(range(kept), 0), kept
    for kind, numbers in steps:
        if kind == "append":
            expected |= {table.end + place: value for place, value in enumerate(numbers)}
            table.append(np.array(numbers, np.int64))
        elif kind == "trim":
            low = max(low, min(numbers[0], table.end))
            table.trim(numbers[0])
        else:
            ids = np.array([number for number in numbers if number < kept or number >= low], np.int64)
            table.cover(ids)
            expected |= {number: 0 for number in range(table.end) if number not in expected}
            table[ids] = ids + 7
            expected |= {number: number + 7 for number in ids.tolist()}
        live = np.array([number for number in range(table.end) if number < kept or number >= low], np.int64)
        assert table[live].tolist() == [expected[number] for number in live.tolist()]


def test_a_trimmed_table_takes_memory_for_live_ids_only() -> None:
    table = IdTable(np.int64, kept=3)
    for end in range(1000, 200_000, 1000):
        table.append(np.zeros(1000, np.int64))
        table.trim(end)
    assert len(table._values) < 10_000


@given(st.lists(st.tuples(st.integers(-5, 50), st.integers(0, 6))))
def test_ranges_and_positions_list_what_python_would(pairs: list[tuple[int, int]]) -> None:
    first, count = np.array(pairs, np.int64).reshape(-1, 2).T
    assert ranges(first, count).tolist() == [first + place for first, count in pairs for place in range(count)]
    assert positions(count).tolist() == [place for _, count in pairs for place in range(count)]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_ids_are_numbered_in_order_of_their_first_appearance(known: list[int], ids: list[int]) -> None:
    numbering = Numbering()
    numbering.number(np.array(known, np.int64))
    numbers, first = numbering.number(np.array(ids, np.int64))
    order = list(dict.fromkeys([*known, *ids]))
    assert numbers.tolist() == [order.index(number) for number in ids]
    assert first.tolist() == [row for row, number in enumerate(ids) if number not in [*known, *ids[:row]]]
    assert numbering.count == len(order)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3)))
def test_sort_order_is_stable_by_time_user_and_request(rows: list[tuple[int, int, int]]) -> None:
    time, user, request = np.array(rows, np.int64).reshape(-1, 3).T
    assert sort_order(time, user, request).tolist() == sorted(range(len(rows)), key=lambda row: rows[row])
