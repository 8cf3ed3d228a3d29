"""The payload: incompressible, never repeating, and every damage seen."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.payload import BLOCK, MAX_OBJECT, SECTOR, Payload, mix, unmix

PAYLOAD = Payload(seed=7)


def make(key: int, offset: int, length: int, payload: Payload = PAYLOAD) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    buffer = np.zeros(4 * BLOCK // 8, np.uint64)
    payload.fill(buffer, key, offset, length)
    return buffer


@given(st.integers(0, 2**64 - 1))
def test_stamps_can_be_read_back(word: int) -> None:
    assert int(unmix(mix(np.array([word], np.uint64)))[0]) == word


def test_a_pure_function_of_seed_key_and_offset() -> None:
    whole = make(3, 0, 4 * BLOCK)
    assert (make(3, 0, 4 * BLOCK, Payload(seed=7)) == whole).all()
    assert (make(3, 2 * BLOCK, BLOCK)[: BLOCK // 8] == whole[2 * BLOCK // 8 : 3 * BLOCK // 8]).all()
    for other in (make(4, 0, 4 * BLOCK), make(3, 4 * BLOCK, 4 * BLOCK), make(3, 0, 4 * BLOCK, Payload(seed=8))):
        assert (other == whole).sum() < 4


def test_golden_bytes() -> None:
    """The payload of a seed never changes: cache files of one release verify under the next."""
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


@given(st.integers(1, 9000), st.integers(0, 2**31), st.integers(0, 63))
def test_what_was_written_passes(length: int, key: int, block: int) -> None:
    buffer, scratch = make(key, block * BLOCK, length), np.zeros(4 * BLOCK // 8, np.uint64)
    assert PAYLOAD.check_stamps(buffer, key, block * BLOCK, length) is None
    assert PAYLOAD.check_bytes(buffer, scratch, key, block * BLOCK, length) is None


@given(st.integers(0, 8999), st.integers(0, 7))
def test_any_flipped_bit_is_seen_in_full(place: int, bit: int) -> None:
    buffer, scratch = make(5, 0, 9000), np.zeros(4 * BLOCK // 8, np.uint64)
    buffer.view(np.uint8)[place] ^= 1 << bit
    wrong = PAYLOAD.check_bytes(buffer, scratch, 5, 0, 9000)
    assert wrong is not None
    assert PAYLOAD.check_bytes(make(5, 0, 9000), scratch, 5, 0, 9000) is None


def test_a_swapped_sector_names_where_it_belongs() -> None:
    buffer = make(5, BLOCK, BLOCK)
    words = SECTOR // 8
    buffer[3 * words : 4 * words] = make(9, 0, BLOCK)[8 * words : 9 * words]
    wrong = PAYLOAD.check_stamps(buffer, 5, BLOCK, BLOCK)
    assert wrong is not None
    assert f"sector {BLOCK // SECTOR + 3} of key 5 holds sector 8 of key 9" in wrong


def test_a_torn_write_is_seen() -> None:
    buffer = make(5, 0, BLOCK)
    buffer[BLOCK // 16 :] = 0
    wrong = PAYLOAD.check_stamps(buffer, 5, 0, BLOCK)
    assert wrong is not None
    assert "1024 of 2048 sectors" in wrong


def test_the_largest_object_can_be_numbered() -> None:
    buffer = make((1 << 36) - 1, MAX_OBJECT - BLOCK, BLOCK)
    assert PAYLOAD.check_stamps(buffer, (1 << 36) - 1, MAX_OBJECT - BLOCK, BLOCK) is None
