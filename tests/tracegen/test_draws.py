"""Draws are those of the published generator, shaped by exact integer arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegen.draws import Purpose, below, between, draw, philox4x32

# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, result.
VECTORS = [
    ([0, 0, 0, 0], (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_philox_gives_the_published_vectors(counter: list[int], key: tuple[int, int], result: list[int]) -> None:
    c0, c1, c2, c3 = (np.array([word], np.uint64) for word in counter)
    assert [int(word[0]) for word in philox4x32((c0, c1, c2, c3), key)] == result


def test_a_draw_uses_the_documented_words_of_philox() -> None:
    """Counter = index, purpose, stream low, stream high; key = seed low, seed high; a draw is words 0 and 1."""
    stream, seed = 0x1_2345_6789, 0xABCDEF_01234567
    words = philox4x32(
        tuple(np.array([w], np.uint64) for w in (7, int(Purpose.THINK), stream & 0xFFFFFFFF, stream >> 32)),  # type: ignore[arg-type]
        (seed & 0xFFFFFFFF, seed >> 32),
    )
    assert int(draw(seed, Purpose.THINK, [stream], [7])[0]) == int(words[0][0]) | int(words[1][0]) << 32


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**63 - 1))
def test_below_multiplies_and_shifts_exactly(bits: int, span: int) -> None:
    assert int(below(np.array([bits], np.uint64), span)[0]) == bits * span >> 64


@given(st.integers(0, 2**64 - 1), st.integers(-(2**40), 2**40), st.integers(0, 2**40))
def test_between_includes_both_bounds_and_nothing_beyond(bits: int, low: int, extra: int) -> None:
    assert low <= int(between(np.array([bits], np.uint64), low, low + extra)[0]) <= low + extra
