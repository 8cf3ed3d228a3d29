"""Random arrangements, valid by construction, and random small traces."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.replayer.arrangements.tiers import NAMES, Table
from tests.replayer.ordering import strategies as ordering
from tracegen.schema import ENUMS, Columns

SOURCES = ENUMS["source"]


def any_of(*values: Any) -> Any:
    return st.sampled_from(values)


@st.composite
def tier_tables(draw: st.DrawFn, inclusive: bool, policies: tuple[str, ...], quotas: bool) -> Table:
    """The rules of a tier, some of them."""
    table = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "down": any_of("on-evict", "on-store", "on-touch") if inclusive else st.just("on-evict"),
                "touches": st.integers(1, 3),
                "admit_touches": st.integers(1, 3),
                "admit_table": any_of(0, 1, 2, 4),
                "up": any_of("stay", "copy", "copy-top") if inclusive else any_of("stay", "move"),
                "policy": any_of(*policies),
                "fetch_tokens": any_of(0, 2, 4, 7),
                "fetch_in_flight": any_of(0, 3, 6, 12),
                "fetch_share": any_of(0.0, 0.5, 0.8, 1.0),
                "user_quota": any_of(1.0, 0.7, 0.35) if quotas else st.just(1.0),
            },
        )
    )
    if draw(st.integers(0, 2)) == 0:
        high, other = draw(any_of(0.95, 0.8, 0.5)), draw(any_of(0.9, 0.6, 0.3, 0.0))
        share = draw(any_of(0.0, 0.0, 0.2, 0.5))
        table |= {"high": high, "evict_share": share} if share else {"high": high, "low": min(high, other)}
    return table


@st.composite
def tables(draw: st.DrawFn, policies: tuple[str, ...] = ("lru", "fifo", "lfu", "clock", "sieve", "leaf-lru")) -> Table:
    """An arrangement, as a TOML file would have it."""
    inclusive = draw(st.booleans())
    table = draw(
        st.fixed_dictionaries(
            {"copies": st.just("inclusive" if inclusive else "exclusive")},
            optional={
                "place": any_of("fastest", "with-room"),
                "touch": any_of("serving", "all"),
                "recency": any_of("op", "tail-first"),
                "lookup": any_of("independent", "contiguous", "trace"),
                "ttl_s": any_of(0, 2, 5, 20),
                "pin": st.lists(st.sampled_from(SOURCES), unique=True, max_size=2),
                "chunk_tokens": any_of(0, 0, 1, 2, 3),
                "tail": any_of("drop", "keep"),
                "unsaved_tokens": st.integers(0, 2),
            },
        )
    )
    quotas = draw(st.booleans())
    for name in NAMES:
        if draw(st.booleans()):
            table[name] = draw(tier_tables(inclusive, policies, quotas))
    return table


def picks_of(drawn: bytes) -> list[Any]:
    """Ops of four bytes each; few draws are fast, and long traces do not shrink Hypothesis's patience."""
    return [
        (
            who % 4,  # user
            who // 4 % 4 == 0,  # a new request
            who // 16 % 2 == 0,  # a new step
            "wrrrrrddx"[op % 9],
            key % 10,
            time % 3,  # seconds since the last op
            time // 4 % 3,  # class
            time // 16 % 4,  # think time
        )
        for who, op, key, time in zip(*[iter(drawn)] * 4, strict=False)
    ]


drawn_rows = st.binary(min_size=4 * 10, max_size=4 * 60).map(picks_of)
sizes = st.binary(min_size=10, max_size=10).map(lambda drawn: [1 + byte % 4 for byte in drawn])
words = st.binary(min_size=60, max_size=60).map(lambda drawn: [byte % 5 for byte in drawn])
"""A source for each op; 4 on a write: it is of phase decode, too."""
capacities = ordering.capacities
seeds = st.integers(0, 2**32)
"""Of a generator, where order does not matter to those who read a failure."""


def columns(picks: list[Any], object_sizes: list[int], drawn_words: list[int]) -> Columns:
    """Ops of a few users over seconds, of all sources, some writes of phase decode."""
    batch = ordering.columns(picks, object_sizes)
    count = len(batch["op_id"])
    source = np.array(drawn_words[:count], dtype=batch["source"].dtype)
    is_answer = (batch["op"] == ENUMS["op"].index("write")) & (source == 4)
    batch["phase"] = np.where(is_answer, ENUMS["phase"].index("decode"), batch["phase"]).astype(batch["phase"].dtype)
    return batch | {"source": source, "time_ns": batch["time_ns"] * 10**6, "think_ns": batch["think_ns"] * 10**6}
