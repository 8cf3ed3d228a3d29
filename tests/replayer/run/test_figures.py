"""What rows of a log moved, against plain Python; figures as lines, and in a series."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replayer.bindings.compiled import RECORD
from replayer.planning.moves import BYPASS, COPY, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE
from replayer.run.figures import Agenda, Figures, TierRate, format_line, parse_line
from replayer.run.gauge import sum_transfers

TRANSFERS = {HIT: "f", PROMOTE: "ft", STORE: "t", DEMOTE: "ft", COPY: "ft"}


@st.composite
def rows(draw: st.DrawFn) -> dict[str, int]:
    move = draw(st.sampled_from([HIT, PROMOTE, STORE, DEMOTE, COPY, MISS, DROP, BYPASS]))
    touched = TRANSFERS.get(move, "")
    return {
        "move": move,
        "from_tier": draw(st.integers(0, 2)) if "f" in touched or move == DROP else -1,
        "to_tier": draw(st.integers(0, 2)) if "t" in touched else -1,
        "status": draw(st.sampled_from([0, 0, 0, 1])),
        "size_bytes": draw(st.integers(1, 1 << 33)),
    }


@given(st.lists(rows(), max_size=40))
def test_transfers_are_those_of_the_rows(log: list[dict[str, int]]) -> None:
    records = np.zeros(len(log), RECORD)
    for at, row in enumerate(log):
        for name, value in row.items():
            records[name][at] = value
    done = [row for row in log if not row["status"] and row["move"] in TRANSFERS]
    for tier, found in enumerate(sum_transfers(records)):
        sides = [sum(row["size_bytes"] for row in done if row[side] == tier) for side in ("from_tier", "to_tier")]
        assert list(found) == sides


RATES = st.floats(0, 1e6)
TELLING: dict[str, Any] = {
    "stage": st.text(),
    "unit": st.sampled_from(["op", "s", "B"]),
    "done": RATES,
    "total": RATES,
    "left_s": st.none() | RATES,
    "tiers": st.dictionaries(st.sampled_from(["cpu", "nvme"]), st.builds(TierRate, RATES, RATES)),
    "failures": st.integers(0, 9),
}


@given(st.builds(Figures, **TELLING))
def test_a_line_tells_them_to_another_process(figures: Figures) -> None:
    line = format_line(figures)
    assert "\n" not in line
    assert parse_line(line + "\n") == figures


def test_other_lines_are_no_figures() -> None:
    assert [parse_line(line) for line in ("", "Warning: x", '{"progress":', '{"progress":{"stage":1}}', "{}")] == [
        None
    ] * 5


HALF = Figures("replaying", "s", 1, 2, 6)


def test_other_replays_take_as_long_as_those_that_have_ended() -> None:
    now_s = [0.0]
    series = Agenda(("a", "b", "c"), lambda: now_s[0])
    series.begin("a")
    assert series.place(HALF) == replace(HALF, replay="replay 1 of 3: a", left_in_all_s=6 + 2 * 6)
    now_s[0] = 4
    assert series.place(HALF).left_in_all_s == 6 + 2 * 10, "this one takes 10 s in all"
    assert series.place(Figures("starting")).left_in_all_s is None
    now_s[0] = 12
    series.begin("b")
    assert series.place(HALF).left_in_all_s == 6 + 12, "the first took 12 s"
    series.begin("c")
    assert series.place(HALF) == replace(HALF, replay="replay 3 of 3: c", left_in_all_s=6)


def test_a_replay_without_others_has_no_place_and_one_decided_on_the_way_is_counted() -> None:
    alone, search = Agenda(["run"]), Agenda()
    alone.begin("run")
    assert alone.place(HALF) == HALF
    for name in ("users_1/trial_1", "users_2/trial_1"):
        search.begin(name)
    assert search.place(HALF).replay == "replay 2: users_2/trial_1"
