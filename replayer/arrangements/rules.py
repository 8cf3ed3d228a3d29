"""The rules of an arrangement as compiled code reads them, for tiers of known sizes."""

from decimal import Decimal, localcontext
from typing import Final, get_args

from replayer.arrangements.arrangement import Arrangement, Source, TierRules
from replayer.bindings.compiled import UNLIMITED, Rules, TierRulesStruct
from replayer.record.options import POLICIES, Down, Up

_PRECISION: Final = 60  # decimal digits: a share of any number of bytes is exact
_DOWN: Final = get_args(Down)
_UP: Final = get_args(Up)
_SOURCES: Final = get_args(Source)

# Bytes of gpu, cpu and nvme: 0 for a tier that the run lacks, None for an unlimited one.
Usable = tuple[int | None, int | None, int | None]


def make_rules(
    arrangement: Arrangement,
    usable: Usable,
    capacity: Usable,
    token_bytes: int,
    *,
    is_contiguous: bool,
    first_writes: bool,
) -> Rules:
    """Return the rules of an arrangement for tiers of these sizes.

    Args:
        arrangement: the rules.
        usable: bytes that objects may take.
        capacity: usable bytes plus the headroom.
        token_bytes: bytes per token, which turn a share of bytes into tokens.
        is_contiguous: whether a prefix ends at its first miss.
        first_writes: whether the first op on a key counts as its write.
    """
    # SGLang limits prefetches by what host memory has more than device memory.
    larger = (usable[1] or 0) - (usable[0] or 0)
    return Rules(
        tuple(
            _make_tier(rules, one, whole, max(0, larger), token_bytes)
            for rules, one, whole in zip(arrangement.tiers().values(), usable, capacity, strict=True)
        ),
        inclusive=arrangement.copies == "inclusive",
        contiguous=is_contiguous,
        first_writes=first_writes,
        with_room=arrangement.place == "with-room",
        touch_all=arrangement.touch == "all",
        tail_first=arrangement.recency == "tail-first",
        ttl_ns=_share(arrangement.ttl_s, 10**9),
        # A bit for each source, as compiled code tests them.
        pinned=sum(1 << _SOURCES.index(source) for source in arrangement.pin),
    )


def _make_tier(
    rules: TierRules, usable: int | None, capacity: int | None, larger: int, token_bytes: int
) -> TierRulesStruct:
    """Return the rules of one tier; `larger` is the number of bytes that cpu has above gpu."""
    limits = [UNLIMITED]
    if rules.fetch_in_flight:
        limits.append(rules.fetch_in_flight)
    if rules.fetch_share:
        limits.append(_share(rules.fetch_share, larger) // token_bytes)
    return TierRulesStruct(
        UNLIMITED if usable is None else usable,
        UNLIMITED if capacity is None else capacity,
        _DOWN.index(rules.down),
        rules.touches,
        rules.admit_touches,
        rules.admit_table,
        _UP.index(rules.up),
        POLICIES.index(rules.policy),
        _limit(rules.high, usable),
        # Without a high mark nothing is evicted in the background.
        _limit(rules.low if rules.high < 1 else 1, usable),
        _share(rules.evict_share, 10**6),
        rules.fetch_tokens,
        min(limits),
        _limit(rules.user_quota, usable),
    )


def _limit(share: float, usable: int | None) -> int:
    """Return the bytes that a share of a tier has; the whole tier has no limit."""
    return UNLIMITED if usable is None or share == 1 else _share(share, usable)


def _share(share: float, size: int | None) -> int:
    """Return floor(share × size), computed in decimal arithmetic."""
    with localcontext(prec=_PRECISION):
        return int(Decimal(str(share)) * (size or 0))
