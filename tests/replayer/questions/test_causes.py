"""Causes for which a tier brings little: each rebuilt as a tiny trace, with a neighbour that is silent.

A token takes one byte. A case gives the trace, the rules, the tiers and the counts that the finding must have; then what
differs in the neighbour, in which the cause is not found, nor any other unless `others` says so.
"""

from typing import Any, NamedTuple

import pytest

from replayer.questions.evidence import name_gib
from tests.replayer.questions.cases import COPIES, found, loop, trace
from tracegen.schema import Columns

INCLUSIVE = {"copies": "inclusive", "cpu": COPIES, "nvme": COPIES}
# The beginning of a prefix becomes the oldest object, because decoding touches only the rest
TOUCHED = trace([["w0", "w1", "w2"], ["w3"], ["w4"], ["d1", "d2"], ["w5"], ["w6"], ["r0", "r1", "r2"]])
PROMPT = [f"r{key}" for key in range(8)]
# A prompt of 80 tokens, four times
LONG = trace([[f"w{key}" for key in range(8)], PROMPT, PROMPT, PROMPT])
# Two prefixes of 50 tokens in turn
PREFIXES = [[f"{op}{key}" for key in keys] for op in "wrrrr" for keys in (range(5), range(5, 10))]
SEEN_ONCE = [[f"w{key}"] for key in range(40)] + [["r39"]]
WRITTEN = [[op] for key in range(50) for op in (f"w{key}", f"r{key}")]
BY_SECOND = trace(loop(5, 2), time_ns=[second * 10**9 for second in range(15)])
# Five objects are read in each round, after ten new ones that are never read
USED_ONCE = trace(
    [[f"w{key}"] for key in range(5)]
    + [
        requests
        for turn in range(8)
        for requests in [*([f"r{key}"] for key in range(5)), *([f"w{100 + 10 * turn + key}"] for key in range(10))]
    ]
)
# Ten objects are read twice in each round, then one is new: it evicts the first, whose return
# evicts the second …
TWICE = trace(
    [[f"w{key}"] for key in range(10)]
    + [
        requests
        for turn in range(6)
        for requests in [*([f"r{key}", f"r{key}"] for key in range(10)), [f"w{100 + turn}"]]
    ]
)


def inclusive(**cpu: Any) -> dict[str, Any]:
    """Copies at once in a tier with these rules of its own."""
    return {"copies": "inclusive", "cpu": COPIES | cpu}


def gains(prompt: int, spared: int, more: int) -> dict[str, int]:
    """The counts of a remedy."""
    return {"prompt_tokens": prompt, "spared_tokens": spared, "more_spared_tokens": more}


class Case(NamedTuple):
    """A trace and tiers in which a cause is found; what differs where it is not."""

    cause: str
    batch: Columns
    rules: dict[str, Any]
    tiers: dict[str, int | None]
    counts: dict[str, int]
    neighbour: dict[str, Any]
    others: bool = False


CASES = {
    "vLLM's documents: a CPU tier no larger than the GPU's holds nothing that the GPU lacks": Case(
        "no larger than the faster tier", trace(loop(20, 3)), INCLUSIVE, {"gpu": 100, "cpu": 100},
        {"usable_bytes": 100, "faster_usable_bytes": 100, "hits": 0} | gains(800, 0, 600), {"cpu": 200},
    ),
    "what moves between tiers may be no larger": Case(
        "no larger than the faster tier", trace(loop(20, 3)), INCLUSIVE, {"gpu": 100, "cpu": 100}, {}, {"rules": {}}, True
    ),
    "spark-vllm-docker#373: a prompt of 80 tokens in a tier of 70 never hits": Case(
        "prefix larger than the tier", LONG, {"lookup": "contiguous"}, {"cpu": 70},
        {"prefixes": 3, "larger_prefixes": 3, "largest_prefix": 80} | gains(320, 0, 240), {"cpu": 80},
    ),
    "objects larger than a tier never enter it": Case(
        "objects larger than the tier", trace(loop(4, 2), tokens=200), {}, {"gpu": 199, "cpu": 1000},
        {"objects": 4, "larger_objects": 4, "largest_object": 200} | gains(2400, 0, 1600), {"gpu": 0},
    ),
    "a trace with little reuse is not the cache's fault": Case(
        "little reuse", trace(SEEN_ONCE), {}, {"cpu": 1000},
        {"prompt_tokens": 410, "reused_tokens": 10}, {"batch": trace([*SEEN_ONCE, ["r38"], ["r37"]])},
    ),
    "nothing is asked for twice": Case(
        "no reuse", trace([[f"w{key}"] for key in range(50)]), INCLUSIVE, {"gpu": 100, "cpu": 100},
        {"prompt_tokens": 500, "reused_tokens": 0}, {"batch": trace([[f"w{key}"] for key in range(10)] + [["r9"], ["r8"]]), "rules": {}, "gpu": 0},
    ),
    "a working set far above all tiers": Case(
        "working set far above all tiers", trace(loop(41, 3)), {}, {"cpu": 100},
        {"reused_bytes": 410, "usable_bytes": 100} | gains(1640, 0, 1230), {"batch": trace(loop(40, 3))}, True,
    ),
    "LRU evicts each of two prefixes before its next use": Case(
        "loop larger than the tiers", trace(PREFIXES), {"lookup": "contiguous"}, {"nvme": 75},
        {"reused_bytes": 100, "usable_bytes": 75} | gains(500, 0, 400), {"nvme": 100},
    ),
    "a new object evicts the one that comes next": Case(
        "tiers too small", TWICE, {}, {"nvme": 100},
        {"reused_bytes": 100, "usable_bytes": 100} | gains(1360, 700, 500), {"nvme": 110},
    ),
    "vLLM#56871: hundreds of GB are written to a tier, and all reads hit before it": Case(
        "written but never read", trace(WRITTEN), INCLUSIVE, {"cpu": 100, "nvme": 1000},
        {"entries": 50, "hits": 0, "write_bytes": 500}, {"batch": trace([*WRITTEN, ["r0"]])},
    ),
    "copies of what the faster tier never evicts": Case(
        "the faster tier holds all", trace(loop(5, 3)), INCLUSIVE, {"cpu": 100, "nvme": 1000}, {"entries": 5},
        {"cpu": 40}, True,
    ),
    "nothing comes to a tier of its own size; unlimited nvme is the default": Case(
        "the faster tier holds all", trace(loop(5, 3)), {}, {"cpu": 100, "nvme": 1000},
        {"entries": 0, "faster_peak_bytes": 50}, {"nvme": None},
    ),
    "sglang#26449: 0.8 × (host − device) tokens is 0 if both are equal; then nobody may ask": Case(
        "limit of tokens in flight", trace(loop(8, 3)), inclusive(fetch_share=0.8), {"gpu": 40, "cpu": 40},
        {"limit_tokens": 0, "asked": 0, "refused": 32}, {"cpu": 80}, True,
    ),
    "a limit below one request lets nobody ask": Case(
        "limit of tokens in flight", trace(loop(8, 3)), inclusive(fetch_in_flight=9), {"gpu": 40, "cpu": 80},
        {"limit_tokens": 9, "asked": 0, "more_spared_tokens": 240}, {"rules": inclusive(fetch_in_flight=10)},
    ),
    "a tier that is asked only for many tokens": Case(
        "asked only for many tokens", trace(loop(8, 3)), inclusive(fetch_tokens=11), {"gpu": 40, "cpu": 80},
        {"refused": 32, "more_spared_tokens": 240}, {"rules": inclusive(fetch_tokens=10)},
    ),
    "sglang#26886: 0 is dropped, 1 and 2 are held, and the whole prefix misses": Case(
        "the beginning of prefixes is lost", TOUCHED, {"lookup": "contiguous"}, {"gpu": 30, "cpu": 30},
        {"headless": 2}, {"cpu": 40},
    ),
    "looked up one by one, nothing else misses for the lost beginning": Case(
        "the beginning of prefixes is lost", TOUCHED, {"lookup": "contiguous"}, {"gpu": 30, "cpu": 30},
        {}, {"rules": {"lookup": "independent"}}, True,
    ),
    "LMCache: of prompts of 300 tokens, chunks of 256 leave out 44": Case(
        "tail tokens are never stored", trace(loop(4, 3), tokens=300), {"chunk_tokens": 256}, {"cpu": 10_000},
        {"unstored_tokens": 44 * 12, "reused_tokens": 300 * 12}, {"rules": {"chunk_tokens": 30}},
    ),
    "two touches make every first reuse miss": Case(
        "taken only after several touches", trace(loop(20, 1)), inclusive(admit_touches=2), {"gpu": 20, "cpu": 1000},
        {"admit_touches": 2, "refused": 20} | gains(400, 0, 200), {"rules": inclusive()},
    ),
    "copies only after several touches": Case(
        "copied only after several touches", trace(loop(20, 2)), inclusive(down="on-touch", touches=2),
        {"gpu": 20, "cpu": 1000}, {"more_spared_tokens": 400}, {"rules": inclusive()},
    ),
    "objects expire before they are used again": Case(
        "expiry before reuse", BY_SECOND, {"ttl_s": 4.0}, {"cpu": 100}, gains(150, 0, 100), {"rules": {"ttl_s": 5.0}}
    ),
    "a tier evicts far below its brim": Case(
        "evicted below the brim", trace(loop(10, 4)), {"cpu": {"high": 0.9, "low": 0.3}}, {"cpu": 100},
        {"prompt_tokens": 500}, {"batch": trace(loop(9, 4))},
    ),
    "objects used once push out those that are used again": Case(
        "objects used once fill the tiers", USED_ONCE, {}, {"cpu": 100},
        {"once_bytes": 800, "reused_bytes": 50}, {"cpu": 150}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_cause_is_found_and_its_neighbour_is_silent(case: Case) -> None:
    finding = found(case.batch, case.rules, **case.tiers)[case.cause]
    assert finding.counts | case.counts == finding.counts
    near = {"batch": case.batch, "rules": case.rules} | case.tiers | case.neighbour
    causes = found(near.pop("batch"), near.pop("rules"), **near)
    assert case.cause not in causes
    assert case.others or not causes


def test_room_that_gains_nothing_is_not_advised() -> None:
    """Room for the larger of two prefixes, or a little more, gains nothing; one finding gives the tier room."""
    (finding,) = found(trace(PREFIXES), {"lookup": "contiguous"}, nvme=75).values()
    assert finding.remedy == f"pass `storage_capacity_gb={name_gib(100)}`: 80.0% of prompt tokens hit instead of 0.0%"
    larger = found(trace(PREFIXES), {"lookup": "contiguous"}, nvme=30)
    assert larger.keys() == {"prefix larger than the tier"}
    assert larger["prefix larger than the tier"].counts["more_spared_tokens"] == 400


def test_a_larger_drive_behind_an_admission_that_refuses_all_is_not_advised() -> None:
    findings = found(trace(loop(20, 1)), {"nvme": {"admit_touches": 9}}, cpu=100, nvme=100)
    assert findings.keys() == {"taken only after several touches"}
    assert "50.0% of prompt tokens hit instead of 0.0%" in findings["taken only after several touches"].remedy
