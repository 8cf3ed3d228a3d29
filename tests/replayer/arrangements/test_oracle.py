"""The oracle of arrangements: where objects go, in cases worked by hand from docs/arrangements.md."""

import pytest

from tests.replayer.arrangements.script import play


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
    """Spillover with room for 3 in cpu and 4 in nvme."""
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


def test_the_end_of_a_prompt_goes_first() -> None:
    """After request 5, a b c have the positions 2 1 0; after it has read them, 5 4 3. What is evicted before turns nothing."""
    table = 'recency = "tail-first"'
    script = "w a 1 q5 \n w b 1 q5 \n w c 1 q5 \n w d 1 \n w e 1 \n w f 1"
    assert play(script, table, (0, 3, 0))[3:] == [
        f"drop {old} cpu, store {new} → cpu" for old, new in zip("cba", "def", strict=True)
    ]
    script = "w a 1 q5 \n w b 1 q5 \n w c 1 q5 \n w d 1"
    assert play(script, table, (0, 2, 0))[2:] == ["drop a cpu, store c → cpu", "drop c cpu, store d → cpu"]
    script = "w a 1 q5 \n w b 1 q5 \n r a q6 \n w c 1"
    assert play(script, table, (0, 2, 0))[3] == "drop b cpu, store c → cpu"
    assert play(script, table + '\n[cpu]\npolicy = "fifo"', (0, 2, 0))[3] == "drop a cpu, store c → cpu"


def test_what_a_prompt_reads_twice_is_as_old_as_its_end() -> None:
    """Request 5 writes a, b and c and reads a: c gets b's position, a the first one."""
    script = "w a 1 q5 \n w b 1 q5 \n w c 1 q5 \n r a q5 \n w d 1 \n w e 1 \n w f 1"
    found = play(script, 'recency = "tail-first"', (0, 3, 0))
    assert [move.split()[1] for move in found[4:]] == ["a", "c", "b"]


def test_an_object_takes_its_turned_recency_down() -> None:
    """gpu evicts c, the end of request 5, then b; nvme, too, evicts c before b."""
    script = "w a 1 q5 \n w b 1 q5 \n w c 1 q5 \n w d 1 \n w e 1 \n w f 1"
    assert play(script, 'recency = "tail-first"', (3, 2, 0))[3:] == [
        "demote c gpu → cpu, store d → gpu",
        "demote b gpu → cpu, store e → gpu",
        "drop c cpu, demote a gpu → cpu, store f → gpu",
    ]
