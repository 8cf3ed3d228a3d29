"""Rules that cost hits: each rebuilt as a tiny trace, with the counts that the finding must have."""

from tests.replayer.questions.cases import COPIES, found, loop, trace
from tracegen.schema import ENUMS

TOUCHED = ["w0", "w1", "w2"], ["w3"], ["w4"], ["d1", "d2"], ["w5"], ["w6"], ["r0", "r1", "r2"]
"""The beginning of a prefix becomes the oldest object, because decoding touches only the rest."""


def test_a_ratio_of_one_makes_the_limit_of_prefetches_zero() -> None:
    """sglang#26449: 0.8 × (host − device) tokens is 0 if both are equal; then nobody may ask."""
    limited = {"copies": "inclusive", "cpu": COPIES | {"fetch_share": 0.8}}
    finding = found(trace(loop(8, 3)), limited, gpu=40, cpu=40)["limit of tokens in flight"]
    assert finding.tiers == ("cpu",)
    assert (finding.counts["limit_tokens"], finding.counts["asked"], finding.counts["refused"]) == (0, 0, 32)
    assert "limit of tokens in flight" not in found(trace(loop(8, 3)), limited, gpu=40, cpu=80)


def test_a_limit_below_one_request_lets_nobody_ask() -> None:
    limited = {"copies": "inclusive", "cpu": COPIES | {"fetch_in_flight": 9}}
    finding = found(trace(loop(8, 3)), limited, gpu=40, cpu=80)["limit of tokens in flight"]
    assert (finding.counts["limit_tokens"], finding.counts["asked"]) == (9, 0)
    assert finding.counts["more_spared_tokens"] == 240
    limited["cpu"] = COPIES | {"fetch_in_flight": 10}
    assert found(trace(loop(8, 3)), limited, gpu=40, cpu=80) == {}


def test_a_tier_that_is_asked_only_for_many_tokens() -> None:
    rules = {"copies": "inclusive", "cpu": COPIES | {"fetch_tokens": 11}}
    finding = found(trace(loop(8, 3)), rules, gpu=40, cpu=80)["asked only for many tokens"]
    assert (finding.counts["refused"], finding.counts["more_spared_tokens"]) == (32, 240)
    rules["cpu"] = COPIES | {"fetch_tokens": 10}
    assert found(trace(loop(8, 3)), rules, gpu=40, cpu=80) == {}


def test_write_back_loses_the_beginning_of_a_prefix() -> None:
    """sglang#26886: 0 is dropped, 1 and 2 are held, and the whole prefix misses."""
    rules = {"lookup": "contiguous"}
    finding = found(trace(TOUCHED), rules, gpu=30, cpu=30)["the beginning of prefixes is lost"]
    assert finding.counts["headless"] == 2
    assert finding.counts["more_spared_tokens"] >= 10
    assert found(trace(TOUCHED), rules, gpu=30, cpu=40) == {}
    alone = found(trace(TOUCHED), {"lookup": "independent"}, gpu=30, cpu=30)
    assert alone.keys() == {"tiers too small"}, "0 is gone, and nothing else misses for it"


def test_tail_tokens_are_never_stored() -> None:
    """LMCache: of prompts of 300 tokens, chunks of 256 leave out 44."""
    batch = trace(loop(4, 3), tokens=300)
    finding = found(batch, {"chunk_tokens": 256}, cpu=10_000)["tail tokens are never stored"]
    assert (finding.counts["unstored_tokens"], finding.counts["reused_tokens"]) == (44 * 12, 300 * 12)
    assert "14.7%" in finding.problem
    assert found(batch, {"chunk_tokens": 30}, cpu=10_000) == {}


def test_two_touches_make_every_first_reuse_miss() -> None:
    rules = {"copies": "inclusive", "cpu": COPIES | {"admit_touches": 2}}
    finding = found(trace(loop(20, 1)), rules, gpu=20, cpu=1000)["taken only after several touches"]
    assert finding.counts == {
        "admit_touches": 2, "refused": 20, "prompt_tokens": 400, "spared_tokens": 0, "more_spared_tokens": 200
    }  # fmt: skip
    rules["cpu"] = COPIES
    assert found(trace(loop(20, 1)), rules, gpu=20, cpu=1000) == {}


def test_a_counting_table_smaller_than_the_keys_between_two_touches() -> None:
    """Twenty keys in turn, and a table of five: each is forgotten before its second touch."""
    table = COPIES | {"admit_touches": 2, "admit_table": 19}
    finding = found(trace(loop(20, 4)), {"copies": "inclusive", "cpu": table}, gpu=20, cpu=1000)[
        "counting table too small"
    ]
    assert (finding.counts["admit_table"], finding.counts["objects"]) == (19, 20)
    assert finding.counts["spared_tokens"] == 0
    assert finding.counts["more_spared_tokens"] == 600, "all but the first reuse of each"
    table["admit_table"] = 20
    assert "counting table too small" not in found(
        trace(loop(20, 4)), {"copies": "inclusive", "cpu": table}, gpu=20, cpu=1000
    )


def test_copies_only_after_several_touches() -> None:
    rules = {"copies": "inclusive", "cpu": {"down": "on-touch", "touches": 2, "up": "copy"}}
    finding = found(trace(loop(20, 2)), rules, gpu=20, cpu=1000)["copied only after several touches"]
    assert finding.counts["more_spared_tokens"] == 400
    rules["cpu"] = COPIES
    assert found(trace(loop(20, 2)), rules, gpu=20, cpu=1000) == {}


def test_objects_expire_before_they_are_used_again() -> None:
    batch = trace(loop(5, 2), time_ns=[second * 10**9 for second in range(15)])
    finding = found(batch, {"ttl_s": 4.0}, cpu=100)["expiry before reuse"]
    assert finding.counts == {"prompt_tokens": 150, "spared_tokens": 0, "more_spared_tokens": 100}
    assert found(batch, {"ttl_s": 5.0}, cpu=100) == {}


def test_a_quota_starves_a_user() -> None:
    batch = trace(loop(5, 2), user_id=[0] * 15)
    assert found(batch, {"cpu": {"user_quota": 0.4}}, cpu=100)["quota per user"].counts["more_spared_tokens"] == 100
    assert found(batch, {"cpu": {"user_quota": 0.5}}, cpu=100) == {}


def test_pins_take_the_room() -> None:
    requests = [[f"w{key}"] for key in range(10, 18)] + [["r10"]] + loop(5, 4)
    sources = [ENUMS["source"].index("system" if index < 8 else "user") for index in range(9 + 25)]
    batch = trace(requests, source=sources)
    assert found(batch, {"pin": ["system"]}, cpu=100)["pins take the room"].counts["more_spared_tokens"] == 200
    assert "pins take the room" not in found(batch, {}, cpu=100)


def test_a_tier_that_evicts_far_below_its_brim() -> None:
    finding = found(trace(loop(10, 4)), {"cpu": {"high": 0.9, "low": 0.3}}, cpu=100)["evicted below the brim"]
    assert finding.counts["more_spared_tokens"] > 200
    assert finding.counts["spared_tokens"] + finding.counts["more_spared_tokens"] == 400
    assert found(trace(loop(9, 4)), {"cpu": {"high": 0.9, "low": 0.3}}, cpu=100) == {}


def test_objects_used_once_fill_the_tiers() -> None:
    """Five objects are read in each round, after ten new ones that are never read."""
    requests = [[f"w{key}"] for key in range(5)]
    for turn in range(8):
        requests += [[f"r{key}"] for key in range(5)]
        requests += [[f"w{100 + 10 * turn + key}"] for key in range(10)]
    finding = found(trace(requests), {}, cpu=100)["objects used once fill the tiers"]
    assert (finding.counts["once_bytes"], finding.counts["reused_bytes"]) == (800, 50)
    assert "objects used once fill the tiers" not in found(trace(requests), {}, cpu=150)
