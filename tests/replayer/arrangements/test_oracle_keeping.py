"""The oracle of arrangements: what is kept and who may ask, in cases worked by hand from docs/arrangements.md."""

import pytest

from tests.replayer.arrangements.script import ops_of, play
from tests.replayer.arrangements.tiers import TABLE, stored_tokens


def test_an_object_expires_when_it_is_asked_for() -> None:
    """Ten seconds after its last touch it is still there, eleven seconds after it is not. System prompts stay."""
    table = 'copies = "inclusive"\nttl_s = 10\npin = ["system"]\n[nvme]\ndown = "on-store"'
    script = "w a 1 @0 \n w s 1 @0 system \n r a @10 \n r a @21 \n r s @99"
    assert play(script, table, (0, 3, 3)) == [
        "store a → cpu, copy a cpu → nvme",
        "store s → cpu, copy s cpu → nvme",
        "hit a cpu",
        "drop a cpu, drop a nvme, miss a, store a → cpu, copy a cpu → nvme",
        "hit s cpu",
    ]


def test_time_does_not_run_backwards() -> None:
    """Request 1 began at 20 s; an op of request 0, which began at 0 s, comes after it and finds a too old."""
    table = "ttl_s = 10"
    assert play("w a 1 @0 q0 \n w b 1 @20 q1 \n r a @0 q0", table, (0, 3, 0))[2] == "drop a cpu, miss a, store a → cpu"


def test_a_delete_passes_time() -> None:
    """It belongs to a request that came at 20 s; then an op of request 0 finds a, of 0 s, too old."""
    script = "w a 1 @0 q0 \n x z 1 @20 q1 \n r a @0 q0"
    assert play(script, "ttl_s = 10", (0, 3, 0))[2] == "drop a cpu, miss a, store a → cpu"


def test_pinned_objects_stay_and_take_room() -> None:
    """s takes 2 of cpu's 3 for good: b, of 2, goes to nvme; d, of 4, nowhere."""
    script = "w s 2 system \n w a 1 \n w b 2 \n w c 1 \n w d 4"
    assert play(script, 'pin = ["system"]', (0, 3, 3)) == [
        "store s → cpu",
        "store a → cpu",
        "store b → nvme",
        "demote a cpu → nvme, store c → cpu",
        "bypass d",
    ]
    assert play("w s 3 system \n w t 1 system \n x s \n r t", 'pin = ["system"]', (0, 3, 0)) == [
        "store s → cpu",
        "bypass t",
        "delete s cpu",
        "miss t, store t → cpu",
    ]


def test_a_pinned_object_is_no_obstacle_to_itself() -> None:
    """cpu holds s, which fills it; on its way down s does not skip it."""
    table = 'copies = "inclusive"\npin = ["system"]\n[cpu]\ndown = "on-store"\n[nvme]\ndown = "on-store"'
    script = "w s 2 system \n r s"
    assert play(script, table, (2, 2, 0)) == ["store s → gpu, copy s gpu → cpu", "hit s gpu"]
    assert play(script, table, (2, 2, 2))[1] == "hit s gpu"


def test_a_quota_per_user() -> None:
    """Half of 6 for each: c of user 0, of 2, evicts a and b of user 0 alone; d, of 4, goes to no tier."""
    table = "[cpu]\nuser_quota = 0.5"
    script = "w a 1 u0 \n w b 2 u0 \n r b u0 \n w z 3 u1 \n w c 2 u0 \n w d 4 u1"
    assert play(script, table, (0, 6, 0)) == [
        "store a → cpu",
        "store b → cpu",
        "hit b cpu",
        "store z → cpu",
        "drop a cpu, drop b cpu, store c → cpu",
        "bypass d",
    ]


def test_the_quota_takes_the_oldest_of_a_user_in_the_tier() -> None:
    """a came to cpu before b, but was touched after it: the quota goes by when they came, lru by the touches."""
    table = "[cpu]\nuser_quota = 0.5\n[gpu]\npolicy = 'fifo'"
    script = "w a 1 \n w b 1 \n r a \n w c 1 \n w d 1 \n w e 1"
    assert play(script, table, (2, 4, 0))[3:5] == [
        "demote a gpu → cpu, store c → gpu",
        "demote b gpu → cpu, store d → gpu",
    ]
    assert play(script, table, (2, 4, 0))[5] == "drop a cpu, demote c gpu → cpu, store e → gpu"
    assert play(script, "[gpu]\npolicy = 'fifo'", (2, 2, 0))[5] == "drop b cpu, demote c gpu → cpu, store e → gpu"


def test_a_request_that_misses_little_does_not_ask() -> None:
    """a and b are in nvme; a request that misses 2 tokens does not ask it, one that misses 4 does."""
    table = 'copies = "inclusive"\n[nvme]\nfetch_tokens = 3'
    script = "w a 2 \n w b 2 \n w c 2 \n {} \n {}"
    before = ["store a → cpu", "demote a cpu → nvme, store b → cpu", "demote b cpu → nvme, store c → cpu"]
    small = play(script.format("r c q7", "r a q7"), table, (0, 2, 9))
    assert small == [*before, "hit c cpu", "miss a, demote c cpu → nvme, store a → cpu"]
    large = play(script.format("r a q7", "r c q7"), table, (0, 2, 9))
    assert large == [*before, "hit a nvme", "hit c cpu"], "c is not leading: four tokens are missing"
    table = "[nvme]\nfetch_tokens = 3"
    assert (
        play(script.format("r c q7", "r a q7"), table, (0, 2, 9))[4]
        == "miss a, drop a nvme, demote c cpu → nvme, store a → cpu"
    )


@pytest.mark.parametrize(
    ("limit", "move"), [(4, "hit b nvme"), (3, "miss b, drop b nvme, demote c cpu → nvme, store b → cpu")]
)
def test_tokens_in_flight(limit: int, move: str) -> None:
    """Request 7 asks for 2 tokens and has an op to come when request 8 asks for 2 more."""
    script = "w a 1 \n w b 2 \n w c 2 \n r a q7 \n r b q8 \n r a q7"
    found = play(script, f"[nvme]\nfetch_in_flight = {limit}", (0, 2, 9))
    assert found[3:] == ["hit a nvme", move, "hit a nvme"]
    assert (
        play("w a 1 \n w b 2 \n w c 2 \n r a q7 \n r a q7 \n r b q8", f"[nvme]\nfetch_in_flight = {limit}", (0, 2, 9))[
            5
        ]
        == "hit b nvme"
    )


@pytest.mark.parametrize(("gpu", "found"), [(2, "hit a cpu"), (3, "miss a"), (4, "miss a")])
def test_a_limit_by_what_cpu_has_more_than_gpu(gpu: int, found: str) -> None:
    """Half of (cpu 4 − gpu) tokens: 1, 0 and 0 for a request of 1."""
    script = f"w a 1 \n w b {gpu} \n r a"
    assert play(script, "[cpu]\nfetch_share = 0.5", (gpu, 4, 0))[2].startswith(found)


def test_chunks() -> None:
    """Two prompts of objects of 300, 300 and 100 tokens in chunks of 256, and an answer whose last token is not saved."""
    ops = ops_of("w a 300 q0 \n w b 300 q0 \n d b q0 \n wd c 169 q0 \n r b q1 \n r b q1 \n w d 100 q1")
    table = TABLE | {"chunk_tokens": 256, "unsaved_tokens": 1}
    assert stored_tokens(ops, table) == {0: 256, 1: 256, 2: 256, 3: 0}
    assert stored_tokens(ops, table | {"unsaved_tokens": 2}) == {0: 256, 1: 256, 2: 0, 3: 0}
    assert stored_tokens(ops, table | {"tail": "keep"}) == {0: 512, 1: 256, 2: 0, 3: 0}
    assert stored_tokens(ops, table | {"chunk_tokens": 0}) == {0: 300, 1: 300, 2: 169, 3: 100}


def test_chunks_are_those_of_the_request_that_writes() -> None:
    """Request 0 comes first, but reads b, of 3 tokens, after a, when request 1 has written it: as its first 2 of 3."""
    ops = ops_of("w a 3 q0 \n w b 3 q1 \n r b q0")
    assert stored_tokens(ops, TABLE | {"chunk_tokens": 2}) == {0: 2, 1: 2}
    ops = ops_of("wd a 1 q0 \n w b 3 q0")
    assert stored_tokens(ops, TABLE | {"chunk_tokens": 2, "unsaved_tokens": 2}) == {0: 0, 1: 4}


def test_what_is_not_stored_is_not_found() -> None:
    assert play("w a 3 \n w b 5 \n r a \n r b \n x a", "chunk_tokens = 4", (0, 9, 0)) == [
        "bypass a",
        "store b → cpu",
        "miss a, bypass a",
        "hit b cpu",
        "delete a",
    ]


def test_what_is_not_stored_does_not_break_a_prompt() -> None:
    """Chunks of 4: a, of 3 tokens, is in b's chunk; a miss of it breaks nothing, and a write of it does."""
    table = 'lookup = "contiguous"\nchunk_tokens = 4\n{}'
    script = "w a 3 q5 \n w b 5 q5 \n r a q6 \n r b q6 \n w c 3 q7 \n r b q7"
    assert play(script, table.format(""), (0, 9, 0))[2:] == [
        "miss a, bypass a",
        "hit b cpu",
        "bypass c",
        "miss b",
    ]
    # b is in cpu, too; of the 8 tokens that request 6 asks for, the 3 of a are missing
    for tokens, move in [(3, "hit d nvme"), (4, "miss d, drop d nvme")]:
        table = f"chunk_tokens = 4\n[nvme]\nfetch_tokens = {tokens}"
        script = "w d 4 \n w a 3 q5 \n w b 5 q5 \n r a q6 \n r b q6 \n d d q6"
        assert play(script, table, (0, 8, 9))[5].startswith(move)
