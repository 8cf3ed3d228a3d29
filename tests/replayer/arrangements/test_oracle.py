"""The oracle of arrangements: each rule of docs/arrangements.md in a case worked by hand."""

import pytest

from tests.replayer.arrangements.script import ops_of, play
from tests.replayer.arrangements.tiers import TABLE, stored_tokens


def test_the_default_is_the_waterfall() -> None:
    """docs/waterfall.md's table: cpu holds 3, nvme 4."""
    script = """
        w a 2
        w b 1
        r a
        w c 2
        w d 4
        r a
        w e 5
    """
    assert play(script, "", (0, 3, 4)) == [
        "store a → cpu",
        "store b → cpu",
        "hit a cpu",
        "demote b cpu → nvme, demote a cpu → nvme, store c → cpu",
        "drop b nvme, drop a nvme, store d → nvme",
        "miss a, drop d nvme, demote c cpu → nvme, store a → cpu",
        "bypass e",
    ]


def test_with_room_is_spillover() -> None:
    """The second table of docs/waterfall.md: cpu holds 3, nvme 4."""
    script = """
        w a 2
        w b 1
        w c 2
        w d 3
        r c
        r a
        x a
        r d
    """
    assert play(script, 'place = "with-room"', (0, 3, 4)) == [
        "store a → cpu",
        "store b → cpu",
        "store c → nvme",
        "drop c nvme, store d → nvme",
        "miss c, drop d nvme, store c → nvme",
        "hit a cpu",
        "delete a cpu",
        "miss d, drop c nvme, store d → nvme",
    ]


def test_up_move_is_a_promotion() -> None:
    """Op 2 takes a out of cpu, which makes the room that b's demotion needs; op 3 finds b in cpu, where it stays."""
    script = "w a 2 \n w b 2 \n r a \n r b"
    assert play(script, '[cpu]\nup = "move"', (2, 2, 0)) == [
        "store a → gpu",
        "demote a gpu → cpu, store b → gpu",
        "promote a cpu, demote b gpu → cpu, store a → gpu",
        "promote b cpu, demote a gpu → cpu, store b → gpu",
    ]
    table = 'place = "with-room"\n[cpu]\nup = "move"'
    assert play("w a 1 \n w b 2 \n r b \n x a \n r b", table, (2, 2, 0)) == [
        "store a → gpu",
        "store b → cpu",
        "hit b cpu",  # gpu has no room for it
        "delete a gpu",
        "promote b cpu, store b → gpu",
    ]


def test_write_through_evicts_for_free() -> None:
    """cpu has a copy at once; so gpu drops a, and cpu, which nothing backs, drops what is least recent there."""
    table = 'copies = "inclusive"\n[cpu]\ndown = "on-store"'
    assert play("w a 1 \n w b 1 \n r a \n w c 1 \n r b", table, (1, 2, 0)) == [
        "store a → gpu, copy a gpu → cpu",
        "drop a gpu, store b → gpu, copy b gpu → cpu",
        "hit a cpu",
        "drop b gpu, store c → gpu, drop b cpu, copy c gpu → cpu",
        "miss b, drop c gpu, store b → gpu, drop a cpu, copy b gpu → cpu",
    ]


def test_a_copy_goes_on_down_and_an_object_too_large_skips_a_tier() -> None:
    table = 'copies = "inclusive"\n[cpu]\ndown = "on-store"\n[nvme]\ndown = "on-store"'
    assert play("w a 1 \n w b 3", table, (4, 2, None)) == [
        "store a → gpu, copy a gpu → cpu, copy a cpu → nvme",
        "store b → gpu, copy b gpu → nvme",
    ]


def test_write_through_selective() -> None:
    """The write is the first touch in gpu, the read the second; what was touched once is dropped, not demoted."""
    table = 'copies = "inclusive"\n[cpu]\ndown = "on-touch"\ntouches = 2'
    assert play("w a 1 \n w b 1 \n r b \n r b \n w c 1 \n r b \n r a", table, (1, 4, 0)) == [
        "store a → gpu",
        "drop a gpu, store b → gpu",
        "hit b gpu, copy b gpu → cpu",
        "hit b gpu",
        "drop b gpu, store c → gpu",
        "hit b cpu",
        "miss a, drop c gpu, store a → gpu",
    ]


def test_write_back_and_copy_up() -> None:
    """Op 2 lifts a, for which b goes to cpu; then cpu holds both, and gpu drops what cpu holds."""
    table = 'copies = "inclusive"\n[cpu]\nup = "copy"'
    assert play("w a 1 \n w b 1 \n r a \n r b \n w c 1", table, (1, 2, 0)) == [
        "store a → gpu",
        "demote a gpu → cpu, store b → gpu",
        "hit a cpu, demote b gpu → cpu, store a → gpu",
        "hit b cpu, drop a gpu, store b → gpu",
        "drop b gpu, store c → gpu",
    ]


@pytest.mark.parametrize(
    ("up", "moves"),
    [
        ("stay", "hit a nvme"),
        ("copy", "hit a nvme, store a → cpu, store a → gpu"),
        ("copy-top", "hit a nvme, store a → gpu"),
    ],
)
def test_a_hit_in_the_slowest_tier(up: str, moves: str) -> None:
    """a is in nvme only: b pushes it out of gpu, c out of cpu; b and c are deleted."""
    table = f'copies = "inclusive"\n[nvme]\nup = "{up}"'
    script = "w a 1 \n w b 1 \n w c 1 \n x b \n x c \n r a"
    assert play(script, table, (1, 1, 1)) == [
        "store a → gpu",
        "demote a gpu → cpu, store b → gpu",
        "demote a cpu → nvme, demote b gpu → cpu, store c → gpu",
        "delete b cpu",
        "delete c gpu",
        moves,
    ]


def test_a_lift_may_evict_what_it_lifts() -> None:
    """gpu's b goes down to cpu, where a must make room, after its bytes were read."""
    table = 'copies = "inclusive"\n[cpu]\nup = "copy"'
    assert play("w a 1 \n w b 1 \n r a", table, (1, 1, 0)) == [
        "store a → gpu",
        "demote a gpu → cpu, store b → gpu",
        "hit a cpu, drop a cpu, demote b gpu → cpu, store a → gpu",
    ]


def test_admission_counts_ops_on_keys() -> None:
    """nvme takes an object from its second prefill op on; decode reads do not count."""
    table = 'copies = "inclusive"\n[nvme]\ndown = "on-store"\nadmit_touches = 2'
    assert play("w a 1 \n d a \n r a", table, (0, 4, 9)) == [
        "store a → cpu",
        "hit a cpu",
        "hit a cpu, copy a cpu → nvme",
    ]
    table = "[nvme]\nadmit_touches = 2"
    assert play("w a 1 \n w b 1 \n r b \n w c 1", table, (0, 1, 9)) == [
        "store a → cpu",
        "drop a cpu, store b → cpu",
        "hit b cpu",
        "demote b cpu → nvme, store c → cpu",
    ]


@pytest.mark.parametrize(("keys", "admitted"), [(0, True), (3, True), (2, False)])
def test_a_small_table_forgets(keys: int, admitted: bool) -> None:
    """Between two ops on a there are ops on two other keys."""
    table = f'copies = "inclusive"\n[nvme]\ndown = "on-store"\nadmit_touches = 2\nadmit_table = {keys}'
    found = play("w a 1 \n w b 1 \n w c 1 \n r a", table, (0, 9, 9))
    assert found[3] == ("hit a cpu, copy a cpu → nvme" if admitted else "hit a cpu")


def test_watermarks() -> None:
    """Above 7 of 10, down to 5; with `evict_share` 0.5 of the 9 used, 4 bytes go, so the two oldest."""
    script = "w a 3 \n w b 3 \n w c 1 \n w d 2"
    assert play(script, "[cpu]\nhigh = 0.7\nlow = 0.5", (0, 10, 0))[2:] == [
        "store c → cpu",
        "store d → cpu, drop a cpu, drop b cpu",
    ]
    assert play(script, "[cpu]\nhigh = 0.7\nlow = 0.6", (0, 10, 9))[3] == "store d → cpu, demote a cpu → nvme"
    assert (
        play(script, "[cpu]\nhigh = 0.7\nevict_share = 0.5", (0, 10, 0))[3] == "store d → cpu, drop a cpu, drop b cpu"
    )
    assert play(script, "[cpu]\nhigh = 0.7\nevict_share = 0.34", (0, 10, 0))[3] == "store d → cpu, drop a cpu"


def test_one_background_makes_work_for_the_next() -> None:
    """gpu demotes a; that brings cpu above its own mark."""
    table = "[gpu]\nhigh = 0.5\nlow = 0.5\n[cpu]\nhigh = 0.5\nlow = 0.0"
    assert play("w a 1 \n w b 1 \n w c 1", table, (2, 3, 9)) == [
        "store a → gpu",
        "store b → gpu, demote a gpu → cpu",
        "store c → gpu, demote b gpu → cpu, demote a cpu → nvme, demote b cpu → nvme",
    ]


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


def test_touch_in_every_holder_or_in_the_one_that_serves() -> None:
    """a and b are in both tiers; a read of a from gpu saves it in cpu only under `all`."""
    table = 'copies = "inclusive"\ntouch = "{}"\n[cpu]\ndown = "on-store"'
    script = "w a 1 \n w b 1 \n r a \n w c 1"
    assert play(script, table.format("serving"), (3, 2, 0))[3] == "store c → gpu, drop a cpu, copy c gpu → cpu"
    assert play(script, table.format("all"), (3, 2, 0))[3] == "store c → gpu, drop b cpu, copy c gpu → cpu"


def test_a_late_read_touches_and_does_not_move() -> None:
    """Request 9 breaks at b; a is there, but is recomputed; it is not offered either."""
    table = 'copies = "inclusive"\nlookup = "contiguous"\n[nvme]\ndown = "on-touch"\ntouches = 2'
    script = "w a 1 \n w b 1 q9 \n r a q9 \n r a"
    assert play(script, table, (0, 2, 9))[2:] == ["miss a", "hit a cpu, copy a cpu → nvme"]
    table = 'lookup = "{}"'
    for lookup, chained, move in [
        ("independent", True, "hit a cpu"),
        ("trace", True, "miss a"),
        ("trace", False, "hit a cpu"),
    ]:
        assert play(script, table.format(lookup), (0, 2, 9), chained=chained)[2] == move


def test_chunks() -> None:
    """Two prompts of objects of 300, 300 and 100 tokens in chunks of 256, and an answer whose last token is not saved."""
    ops = ops_of("w a 300 q0 \n w b 300 q0 \n d b q0 \n wd c 169 q0 \n r b q1 \n r b q1 \n w d 100 q1")
    table = TABLE | {"chunk_tokens": 256, "unsaved_tokens": 1}
    assert stored_tokens(ops, table) == {0: 256, 1: 256, 2: 256, 3: 0}
    assert stored_tokens(ops, table | {"unsaved_tokens": 2}) == {0: 256, 1: 256, 2: 0, 3: 0}
    assert stored_tokens(ops, table | {"tail": "keep"}) == {0: 512, 1: 256, 2: 0, 3: 0}
    assert stored_tokens(ops, table | {"chunk_tokens": 0}) == {0: 300, 1: 300, 2: 169, 3: 100}


def test_what_is_not_stored_is_not_found() -> None:
    assert play("w a 3 \n w b 5 \n r a \n r b \n x a", "chunk_tokens = 4", (0, 9, 0)) == [
        "bypass a",
        "store b → cpu",
        "miss a, bypass a",
        "hit b cpu",
        "delete a",
    ]


@pytest.mark.parametrize(
    ("policy", "victims"),
    [("lru", "b c a"), ("fifo", "a b c"), ("lfu", "b c d"), ("clock", "b c a"), ("sieve", "b c d")],
)
def test_policies(policy: str, victims: str) -> None:
    """a is read after b and c are written; then d, e, f evict one object each."""
    script = "w a 1 \n w b 1 \n w c 1 \n r a \n w d 1 \n w e 1 \n w f 1"
    found = play(script, f'[cpu]\npolicy = "{policy}"', (0, 3, 0))
    assert [move.split()[1] for move in found[4:]] == victims.split()


def test_a_touched_object_stays_in_its_place_under_sieve_and_goes_around_under_clock() -> None:
    """a, b, c; a is read; d evicts b. Then e evicts c. For f, clock comes to a, sieve's hand to d, which was read, and to e."""
    script = "w a 1 \n w b 1 \n w c 1 \n r a \n w d 1 \n r d \n w e 1 \n w f 1"
    sieve, clock = (play(script, f'[cpu]\npolicy = "{name}"', (0, 3, 0)) for name in ("sieve", "clock"))
    assert [sieve[i] for i in (4, 6, 7)] == [
        "drop b cpu, store d → cpu",
        "drop c cpu, store e → cpu",
        "drop e cpu, store f → cpu",
    ]
    assert [clock[i] for i in (4, 6, 7)] == [
        "drop b cpu, store d → cpu",
        "drop c cpu, store e → cpu",
        "drop a cpu, store f → cpu",
    ]
