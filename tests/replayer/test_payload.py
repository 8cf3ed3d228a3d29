"""The payload: incompressible, without repetition, as described; every damage is found."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.tiers.payload import BLOCK, MAX_OBJECT, SECTOR, U64, Payload

SEED = 7
PAYLOAD = Payload(SEED)
WORDS, BITS, ALL = SECTOR // 8, 28, (1 << 64) - 1
POOL = np.random.Philox(key=SEED).random_raw(BLOCK // 8)


def split_mix(word: int) -> int:
    """SplitMix64's finaliser (Steele et al., OOPSLA'14)."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & ALL
    word = (word ^ word >> 27) * 0x94D049BB133111EB & ALL
    return word ^ word >> 31


def expected(key: int, offset: int, length: int) -> U64:
    """Make whole sectors from `offset` on, as core/payload.c describes them."""
    first, count = offset // SECTOR, -(-length // SECTOR)
    words = np.empty((count, WORDS), np.uint64)
    pool, masks = POOL.reshape(-1, WORDS), dict[int, np.uint64]()
    for i, sector in enumerate(range(first, first + count)):
        block = sector * SECTOR // BLOCK
        if block not in masks:
            masks[block] = np.uint64(split_mix(((key << BITS | block) + int(POOL[0])) & ALL))
        words[i] = pool[sector % len(pool)] ^ masks[block]
        words[i, 0] = split_mix((key << BITS) + sector ^ int(POOL[0]))
    return words.reshape(-1)


def make(key: int, offset: int, length: int, payload: Payload = PAYLOAD) -> U64:
    buffer = np.zeros(4 * BLOCK // 8, np.uint64)
    payload.fill(buffer, key, offset, length)
    return buffer


def test_split_mix_is_split_mix() -> None:
    """The generator's first outputs from seed 1234567, as published with it."""
    step, state, outputs = 0x9E3779B97F4A7C15, 1234567, []
    for _ in range(3):
        state = (state + step) & ALL
        outputs.append(split_mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


keys = st.integers(0, 2**36 - 1)
sectors = st.one_of(
    st.integers(0, (1 << BITS) - 64),
    st.integers(0, 100).map(lambda block: block * (BLOCK // SECTOR)),
    st.integers(1, 100).map(lambda block: block * (BLOCK // SECTOR) - 9),
)


@given(keys, sectors, st.integers(1, 32 * SECTOR), st.integers(0, 7))
def test_every_byte_matches_the_description(key: int, sector: int, length: int, skew: int) -> None:
    """At any address of the buffer; bytes after the last sector are left alone."""
    whole = -(-length // SECTOR) * SECTOR
    buffer = np.full(whole // 8 + 16, 0xABABABABABABABAB, np.uint64)
    PAYLOAD.fill(buffer[skew:], key, sector * SECTOR, length)
    assert (buffer[skew : skew + whole // 8] == expected(key, sector * SECTOR, whole)).all()
    assert (np.delete(buffer, slice(skew, skew + whole // 8)) == 0xABABABABABABABAB).all()


@given(keys, sectors, st.integers(0, 4200), st.integers(0, 9))
def test_padding_continues_the_object_and_keeps_the_bytes_before(key: int, sector: int, length: int, more: int) -> None:
    whole = (-(-length // SECTOR) + more) * SECTOR
    buffer = np.full(whole // 8 + 8, 0xCD, np.uint8).repeat(8)
    PAYLOAD.pad(buffer.view(np.uint64), key, sector * SECTOR, length, whole)
    assert (buffer[:length] == 0xCD).all()
    assert (buffer[length:whole] == expected(key, sector * SECTOR, max(whole, 1)).view(np.uint8)[length:whole]).all()
    assert (buffer[whole:] == 0xCD).all()


@given(keys, st.integers(0, (1 << BITS) - 1))
def test_a_stamp_can_be_decoded(key: int, sector: int) -> None:
    """A sector in a wrong place tells where it belongs: the core inverts the stamp."""
    buffer = np.array([split_mix((key << BITS) + sector ^ int(POOL[0]))], np.uint64)
    place = (1, 5) if (key, sector) != (1, 5) else (1, 6)
    problem = PAYLOAD.check(buffer, place[0], place[1] * SECTOR, 8, every_byte=False)
    holds = f"sector {sector} of key {key}" if key < 2**32 else "no stamp of this run"
    assert problem is not None
    assert problem.endswith(f"sector {place[1]} of key 1 holds {holds}")


def test_the_bytes_of_a_seed_never_change() -> None:
    """So cache files of one release verify under the next."""
    assert [f"{word:016x}" for word in make(1, 0, SECTOR)[:3].tolist()] == GOLDEN


GOLDEN = ["259820c470ff6ecf", "6e05300988192e48", "4e13a5ba2095c257"]


def test_no_mebibyte_compresses_by_one_percent() -> None:
    for key in (0, 1, 77):
        data = make(key, 0, 4 * BLOCK).tobytes()
        for start in range(0, len(data), BLOCK):
            part = data[start : start + BLOCK]
            assert len(zlib.compress(part, 9)) > 0.99 * len(part)
    assert len(zlib.compress(data, 9)) > 0.99 * len(data)


@pytest.mark.parametrize("sector", [512, 4096])
def test_no_sector_repeats_within_or_across_objects(sector: int) -> None:
    data = b"".join(make(key, offset, 4 * BLOCK).tobytes() for key in range(4) for offset in (0, 4 * BLOCK))
    sectors = {data[start : start + sector] for start in range(0, len(data), sector)}
    assert len(sectors) == len(data) // sector


@given(st.integers(1, 9000), st.integers(0, 2**31), st.integers(0, 63), st.integers(0, 7))
def test_bytes_as_written_pass_the_checks(length: int, key: int, block: int, skew: int) -> None:
    """Whatever bytes follow in the buffer."""
    buffer = np.full(9600 // 8 + skew, 0xEE, np.uint64)
    buffer[skew : skew + -(-length // SECTOR) * WORDS] = make(key, block * BLOCK, length)[
        : -(-length // SECTOR) * WORDS
    ]
    buffer[skew:].view(np.uint8)[length:] = 0xEE
    assert PAYLOAD.check(buffer[skew:], key, block * BLOCK, length, every_byte=False) is None
    assert PAYLOAD.check(buffer[skew:], key, block * BLOCK, length) is None


@pytest.mark.parametrize("length", [*range(1, 18), *range(504, 530), *range(1020, 1034)])
@pytest.mark.parametrize("offset", [0, BLOCK - SECTOR])
def test_full_checks_find_any_flipped_bit_and_stamp_checks_those_in_stamps(length: int, offset: int) -> None:
    """A last sector of fewer than 8 bytes holds no whole stamp."""
    buffer = make(5, offset, length)[: -(-length // SECTOR) * WORDS].copy()
    raw = buffer.view(np.uint8)
    assert PAYLOAD.check(buffer, 5, offset, length) is None
    for place in range(length):
        raw[place] ^= 1 << place % 8
        first_of_sector = place // SECTOR * SECTOR
        stamped = place - first_of_sector < 8 and first_of_sector + 8 <= length
        problem = PAYLOAD.check(buffer, 5, offset, length)
        assert (PAYLOAD.check(buffer, 5, offset, length, every_byte=False) is not None) == stamped
        if stamped:
            assert problem is not None
            assert f"sectors wrong from byte {offset} on: sector {(offset + place) // SECTOR} of key 5" in problem
        else:
            assert problem == f"1 bytes of key 5 wrong, the first at byte {offset + place}"
        raw[place] ^= 1 << place % 8
    for behind in range(length, len(raw)):
        raw[behind] ^= 0xFF
    assert PAYLOAD.check(buffer, 5, offset, length) is None, "what lies behind is not looked at"


def test_the_error_of_a_swapped_sector_names_its_place() -> None:
    buffer = make(5, BLOCK, BLOCK)
    buffer[3 * WORDS : 4 * WORDS] = make(9, 0, BLOCK)[8 * WORDS : 9 * WORDS]
    for every_byte in (False, True):
        problem = PAYLOAD.check(buffer, 5, BLOCK, BLOCK, every_byte=every_byte)
        assert problem is not None
        assert f"sector {BLOCK // SECTOR + 3} of key 5 holds sector 8 of key 9" in problem


def test_sectors_of_the_largest_object_can_be_numbered() -> None:
    buffer = make((1 << 36) - 1, MAX_OBJECT - BLOCK, BLOCK)
    assert PAYLOAD.check(buffer, (1 << 36) - 1, MAX_OBJECT - BLOCK, BLOCK, every_byte=False) is None
