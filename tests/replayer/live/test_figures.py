"""The figures of a log so far, against the log's rows in plain Python."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replayer.bindings.compiled import RECORD
from replayer.bindings.figures import LogFigures
from replayer.live.figures import Figures, TierRate, format_line, parse_line
from replayer.planning.moves import BYPASS, COPY, DEMOTE, DROP, HIT, MISS, NVME, PROMOTE, STORE
from tracegen.schema import DECODE, ENUMS, PREFILL, READ, WRITE

RAG = ENUMS["source"].index("rag")
REQUESTS = 4
TRANSFERS = {HIT: "f", PROMOTE: "ft", STORE: "t", DEMOTE: "ft", COPY: "ft"}
TIMES = st.integers(0, 40) | st.integers(0, 1 << 40)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, int]:
    move = draw(st.sampled_from([HIT, PROMOTE, STORE, DEMOTE, COPY, MISS, DROP, BYPASS]))
    touched = TRANSFERS.get(move, "")
    due = draw(TIMES)
    return {
        "move": move,
        "from_tier": draw(st.integers(0, 2)) if "f" in touched or move == DROP else -1,
        "to_tier": draw(st.integers(0, 2)) if "t" in touched else -1,
        "status": draw(st.sampled_from([0, 0, 0, 1])),
        "warmup": draw(st.booleans()),
        "phase": draw(st.sampled_from([PREFILL, DECODE])),
        "op": draw(st.sampled_from([READ, WRITE])),
        "source": draw(st.sampled_from([0, RAG])),
        "tokens": draw(st.integers(0, 9)),
        "request_id": draw(st.integers(0, REQUESTS - 1)),
        "size_bytes": draw(st.integers(1, 1 << 33)),
        "read_ns": draw(TIMES),
        "due_ns": due,
        "end_ns": due + draw(TIMES),
    }


def logged(log: list[dict[str, int]], batches: list[int]) -> LogFigures:
    """The figures of a log that is taken in batches, which end at these rows."""
    records = np.zeros(len(log), RECORD)
    for at, row in enumerate(log):
        for name, value in row.items():
            records[name][at] = value
    figures = LogFigures(REQUESTS)
    for part in np.split(records, sorted(end % (len(log) + 1) for end in batches)):
        figures.add(part)
    return figures


def steady(log: list[dict[str, int]]) -> list[dict[str, int]]:
    """The rows that count: those of the warm-up only if there are no others."""
    return [row for row in log if not row["warmup"]] or log


def quantile(values: list[int], share: float) -> int | None:
    return sorted(values)[max(1, int(np.ceil(share * len(values)))) - 1] if values else None


def check(found: float | None, wanted: int | None) -> None:
    """Equal to a bucket: 1/32 of its time."""
    if found is None or wanted is None:
        assert found == wanted
    else:
        assert abs(found - wanted) <= wanted / 32


def is_of_prompt(row: dict[str, int]) -> bool:
    """A read, or the first touch of an object; documents that RAG ingests are no prompt."""
    is_first = row["op"] == WRITE and row["move"] in (STORE, BYPASS) and row["source"] != RAG
    return is_first or row["move"] in (HIT, PROMOTE, MISS)


@given(st.lists(rows(), max_size=40), st.lists(st.integers(0, 40), max_size=3), st.sampled_from([0.01, 0.5, 0.95, 1]))
def test_they_are_those_of_the_rows(log: list[dict[str, int]], batches: list[int], share: float) -> None:
    figures = logged(log, batches)
    done = [row for row in log if not row["status"] and row["move"] in TRANSFERS]
    for tier, found in enumerate(figures.tier_bytes()):
        sides = [sum(row["size_bytes"] for row in done if row[side] == tier) for side in ("from_tier", "to_tier")]
        assert list(found) == sides, "the warm-up's bytes are moved, too"
    counted = steady(log)
    prompt = [row for row in counted if row["phase"] == PREFILL and is_of_prompt(row)]
    assert figures.struct.prompt_tokens == sum(row["tokens"] for row in prompt)
    hits = [row for row in prompt if row["move"] in (HIT, PROMOTE) and not row["status"]]
    assert figures.struct.hit_tokens == sum(row["tokens"] for row in hits)
    times = [row["read_ns"] for row in counted if row in done and row["from_tier"] == NVME]
    check(figures.nvme_read_ns(share), quantile(times, share))
    firsts = []
    for request in range(REQUESTS):
        own = [row for row in counted if row["request_id"] == request and row["move"] not in (DEMOTE, DROP, COPY)]
        ends = [row["end_ns"] for row in own if row["phase"] == PREFILL]
        firsts += [max(0, max(ends) - min(row["due_ns"] for row in own))] if ends else []
    check(figures.first_byte_ns(share), quantile(firsts, share))


def test_requests_under_pace_asap_have_no_time() -> None:
    records = np.zeros(1, RECORD)
    records["move"] = MISS
    records["end_ns"] = 7
    records["tokens"] = 3
    figures = LogFigures(0)
    figures.add(records)
    assert (figures.first_byte_ns(0.95), figures.struct.prompt_tokens) == (None, 3)


def test_a_p95_by_hand() -> None:
    """Of 100 reads, 94 take 1 ms and 6 take 50 ms: the 95th is one of the slow ones."""
    read: dict[str, int] = {"move": HIT, "from_tier": NVME, "to_tier": -1}
    log = [read | {"read_ns": 1_000_000 if number < 94 else 50_000_000} for number in range(100)]
    figures = logged(log, [])
    found = figures.nvme_read_ns(0.95)
    assert found is not None
    assert 50e6 * 31 / 32 < found < 50e6 * 33 / 32
    check(figures.nvme_read_ns(0.94), 1_000_000)


RATES = st.floats(0, 1e6)
TELLING: dict[str, Any] = {
    "stage": st.text(),
    "unit": st.sampled_from(["op", "s", "B"]),
    "done": RATES,
    "total": RATES,
    "left_s": st.none() | RATES,
    "tiers": st.dictionaries(st.sampled_from(["cpu", "nvme"]), st.builds(TierRate, RATES, RATES)),
    "hit_rate": st.none() | st.floats(0, 1),
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
