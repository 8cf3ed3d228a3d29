"""Random numbers: a pure function of (seed, purpose, stream, index), equal on every platform.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC'11), vectorised over streams and indices. Counter words: index, purpose, stream (low, high); key
words: seed (low, high). Draws are shaped with integer arithmetic only, because the distribution
methods of numpy's Generator may change between releases.
"""

import csv
from enum import IntEnum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tracegen.arrays import Ints

U64 = NDArray[np.uint64]

_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)

FILE: Final = Path(__file__).with_name("gamma_gaps.csv")


class Purpose(IntEnum):
    """The decision that a draw makes. A new purpose takes a new number, so that no earlier draw changes."""

    SAMPLE = 1
    QOS = 2
    PREFIX_CARRIED = 3
    PREFIX_CHOICE = 4
    THINK = 5
    ARRIVAL = 6
    SOURCE = 7
    PERSONA = 8
    USER_CONTEXT = 9
    USER_GENERATION = 10
    USER_THINK = 11
    TURNS = 12
    CONTEXT = 13
    GENERATION = 14
    PRODUCT = 15
    TENANT = 16
    PHRASE_CARRIED = 17
    PHRASE_CHOICE = 18
    RETRIEVES = 19
    DOCUMENT = 20
    CHUNK = 21
    DOCUMENT_TOKENS = 22
    JITTER = 23
    SESSION_CONTINUED = 25


def philox4x32(counter: tuple[U64, U64, U64, U64], key: tuple[int, int]) -> tuple[U64, U64, U64, U64]:
    """Return ten rounds of Philox4x32: arrays of the counter's shape; every value and key word is below 2^32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def draw(seed: int, purpose: Purpose, stream: ArrayLike, index: ArrayLike = 0) -> U64:
    """Return uniform 64-bit draws, one for every (stream, index) pair after broadcasting.

    Streams (a session, a block of arrivals) and the seed are below 2^64, indices in them below 2^32.
    """
    streams, indices = np.broadcast_arrays(np.asarray(stream, dtype=np.uint64), np.asarray(index, dtype=np.uint64))
    purposes = np.full(streams.shape, int(purpose), dtype=np.uint64)
    words = philox4x32((indices, purposes, streams & _LOW, streams >> _HALF), (seed & 0xFFFFFFFF, seed >> 32))
    return words[0] | (words[1] << _HALF)


def below(bits: U64, span: int | Ints) -> Ints:
    """Map uniform 64-bit draws to 0 … span-1 by multiply-shift: floor(bits * span / 2^64), exactly.

    Spans, one for all draws or one for each, are from 1 to 2^63 - 1.
    """
    wide = np.asarray(span).astype(np.uint64)
    high, low = wide >> _HALF, wide & _LOW
    a, b = bits >> _HALF, bits & _LOW
    if not high.any():  # the sum below, without the terms that are 0
        short: U64 = (a * low + ((b * low) >> _HALF)) >> _HALF
        return short.astype(np.int64)
    carry = ((b * low) >> _HALF) + ((a * low) & _LOW) + ((b * high) & _LOW)
    product: U64 = a * high + ((a * low) >> _HALF) + ((b * high) >> _HALF) + (carry >> _HALF)
    return product.astype(np.int64)


def between(bits: U64, low: int | Ints, high: int | Ints) -> Ints:
    """Map uniform 64-bit draws to the integers low … high, both included."""
    return low + below(bits, high - low + 1)


def choose(bits: U64, weights: ArrayLike, among: Ints | None = None) -> Ints:
    """Map uniform 64-bit draws to indices of integer weights, each as often as its weight.

    With `among`, one number for each draw, the draw chooses from that number of the first weights only.
    """
    cumulative = np.cumsum(np.asarray(weights, dtype=np.int64))
    span = int(cumulative[-1]) if among is None else cumulative[among - 1]
    index: Ints = np.searchsorted(cumulative, below(bits, span), side="right").astype(np.int64)
    return index


def chance(bits: U64, share: float) -> NDArray[np.bool_]:
    """Map uniform 64-bit draws to true for a share of them, from 0 to 1 in steps of 10^-9."""
    is_chosen: NDArray[np.bool_] = below(bits, 10**9) < round(Fraction(str(share)) * 10**9)
    return is_chosen


def zipf_weights(count: int) -> Ints:
    """Return integer Zipf weights with exponent 1: floor(2^32 / rank) for ranks 1 … count."""
    return 2**32 // np.arange(1, count + 1)


@cache
def load_gaps(shape: float) -> tuple[int, ...]:
    """Load the gaps of a gamma law with mean 2^20, one per 1024th of the draws, ascending.

    Integer tables are equal on every platform. Entry i of shape k is the law's mean between its
    quantiles i/1024 and (i + 1)/1024, rounded: 2^30 (P(k + 1, q(i + 1)) - P(k + 1, q(i))), with P the
    regularised incomplete gamma function and q the quantiles of shape k.
    The spread within a bin is lost: the tables have 99.2, 99.7 and 99.8% of the variance of shapes
    0.1, 0.25 and 0.5.
    """
    with FILE.open(newline="", encoding="ascii") as file:
        return tuple(int(row[f"shape_{shape}"]) for row in csv.DictReader(file))
