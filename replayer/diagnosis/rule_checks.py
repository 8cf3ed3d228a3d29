"""Checks of rules: the trace is planned again with a rule changed, to see what the rule costs.

Each check first looks at the counts of the plan at hand. It plans again only if the rule is there
and has had an effect, so most plans are never made.
"""

from collections.abc import Iterator
from typing import Final

from replayer.bindings.compiled import UNLIMITED
from replayer.diagnosis.evidence import PlanEvidence
from replayer.diagnosis.finding import Finding, describe_gain
from replayer.diagnosis.size_checks import plan_room
from replayer.record.columns import TIERS

POLICY_GAIN: Final = 0.05
"""GAIN for another policy: policies differ by a few percent on any trace."""
REFUSED: Final = 0.10
"""Share of requests from which on it matters that they may not ask a tier."""
HEADLESS: Final = 0.02
"""Share of reads from which on it matters that the beginning of their prefix was gone."""
UNSTORED: Final = 0.05
"""Share of the tokens that prompts reuse from which on it matters that chunks leave them out."""
ONCE: Final = 0.50
"""Share of bytes from which on objects that are used once fill the tiers."""


def check_limit_in_flight(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that requests may not ask, because other requests' tokens are in flight."""
    rules = evidence.plan.rules()
    offers = evidence.summary.offers
    for tier in evidence.tiers_with(lambda one: bool(one.fetch_in_flight or one.fetch_share)):
        code = TIERS.index(tier)
        limit = int(rules.tier[code].fetch_in_flight)
        refused, asked = offers.fetches_refused[code], offers.fetches[code]
        if tier == "gpu" or limit == UNLIMITED or refused < max(1, REFUSED * (refused + asked)):
            continue
        gain = evidence.measure_gain(fetch_in_flight=0, fetch_share=0.0)
        planned = None
        if gain:
            planned = f"set `fetch_in_flight` and `fetch_share` to 0: {describe_gain(gain)}", gain
        elif tier == "cpu":  # a share of what it has more than gpu
            planned = plan_room(evidence, tier, 2 * evidence.tiers().get("gpu", 0), tier)
        if planned is None:
            continue
        remedy, gain = planned
        yield Finding(
            "limit of tokens in flight",
            (tier,),
            f"{refused:,} of {refused + asked:,} requests may not ask {tier}: {limit:,} tokens in flight are the most",
            remedy,
            {"limit_tokens": limit, "refused": refused, "asked": asked} | gain,
        )


def check_fetch_tokens(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that are asked only for many tokens."""
    offers = evidence.summary.offers
    tiers = evidence.tiers_with(lambda one: one.fetch_tokens > 0)
    refused = sum(offers.fetches_refused[TIERS.index(tier)] for tier in tiers)
    gain = evidence.measure_gain(fetch_tokens=0) if refused else None
    if gain is None:
        return
    yield Finding(
        "asked only for many tokens",
        tiers,
        f"{_join(tiers)} may be asked only for many tokens, and {refused:,} requests miss fewer",
        f"set `fetch_tokens` to 0: {describe_gain(gain)}",
        {"refused": refused} | gain,
    )


def check_heads(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find prefixes that lost their beginning though tiers hold the rest."""
    if evidence.headless < max(1, HEADLESS * evidence.reads):
        return
    gain = evidence.measure_gain(policy="leaf-lru")
    if gain is None:
        return
    yield Finding(
        "the beginning of prefixes is lost",
        tuple(evidence.bounded_tiers()),
        f"{evidence.headless:,} reads miss what a tier holds, because an earlier object is gone",
        f"pass `policy=leaf-lru`, which evicts ends first: {describe_gain(gain)}",
        {"headless": evidence.headless} | gain,
    )


def check_tails(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tokens that no tier stores, because the prompt ends inside a chunk."""
    tokens, reuse = evidence.rules.chunk_tokens, evidence.reuse
    lost = reuse.reused_tokens - reuse.stored_tokens
    if not tokens or lost < max(1, UNSTORED * reuse.reused_tokens):
        return
    remedy, gain = "set `tail` to keep", evidence.measure_gain(tail="keep")
    if gain is None:
        remedy, gain = "pass `chunk_tokens=0`", evidence.measure_gain(chunk_tokens=0)
    if gain is None:
        return
    yield Finding(
        "tail tokens are never stored",
        (),
        f"chunks of {tokens:,} tokens leave out {lost:,} of {reuse.reused_tokens:,} tokens that"
        f" prompts use again ({lost / reuse.reused_tokens:.1%})",
        f"{remedy}: {describe_gain(gain)}",
        {
            "chunk_tokens": tokens,
            "unstored_tokens": lost,
            "reused_tokens": reuse.reused_tokens,
            **gain,
        },
    )


def check_admission(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that take an object only after several touches."""
    tiers = evidence.tiers_with(lambda one: one.admit_touches > 1)
    refused = _sum_refused(evidence, tiers)
    gain = evidence.measure_gain(admit_touches=1) if refused else None
    if gain is None:
        return
    touches = max(evidence.rules.tiers()[tier].admit_touches for tier in tiers)
    yield Finding(
        "taken only after several touches",
        tiers,
        f"{_join(tiers)} refused {refused:,} objects before their touch {touches}, so first reuses miss",
        f"set `admit_touches` to 1, if the tier bears the writes: {describe_gain(gain)}",
        {"admit_touches": touches, "refused": refused} | gain,
    )


def check_table(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find counting tables that forget keys between two touches."""
    tiers = evidence.tiers_with(lambda one: one.admit_touches > 1 and one.admit_table > 0)
    refused = _sum_refused(evidence, tiers)
    if not refused:
        return
    table = min(evidence.rules.tiers()[tier].admit_table for tier in tiers)
    keys = len(evidence.reuse.object_bytes)
    gain = evidence.measure_gain(admit_table=0) if keys > table else None
    if gain is None:
        return
    yield Finding(
        "counting table too small",
        tiers,
        f"{_join(tiers)} counts the touches of {table:,} of {keys:,} objects, and forgets the"
        " others between two touches",
        f"set `admit_table` to 0, which counts all: {describe_gain(gain)}",
        {"admit_table": table, "objects": keys, "refused": refused} | gain,
    )


def check_on_touch(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that get an object only after it was touched several times in a faster one."""
    tiers = evidence.tiers_with(lambda one: one.down == "on-touch" and one.touches > 1)
    gain = evidence.measure_gain(touches=1) if tiers else None
    if gain is None:
        return
    touches = max(evidence.rules.tiers()[tier].touches for tier in tiers)
    yield Finding(
        "copied only after several touches",
        tiers,
        f"{_join(tiers)} gets an object after {touches} touches, so what is evicted before is lost",
        f"set `touches` to 1: {describe_gain(gain)}",
        {"touches": touches} | gain,
    )


def check_expiry(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find objects that expire before they are used again."""
    ttl = evidence.rules.ttl_s
    gain = evidence.measure_gain(ttl_s=0.0) if ttl else None
    if gain is None:
        return
    yield Finding(
        "expiry before reuse",
        (),
        f"objects expire {ttl:,g} s after their last touch",
        f"pass `ttl=0`: {describe_gain(gain)}",
        gain,
    )


def check_quota(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find quotas that evict objects which are used again."""
    tiers = evidence.tiers_with(lambda one: one.user_quota < 1)
    gain = evidence.measure_gain(user_quota=1.0) if tiers else None
    if gain is None:
        return
    quota = min(evidence.rules.tiers()[tier].user_quota for tier in tiers)
    yield Finding(
        "quota per user",
        tiers,
        f"a user may fill {quota:.1%} of {_join(tiers)}",
        f"set `user_quota` to 1: {describe_gain(gain)}",
        gain,
    )


def check_pins(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find pinned objects that take the room of those that are used again."""
    pins = evidence.rules.pin
    gain = evidence.measure_gain(pin=()) if pins else None
    if gain is None:
        return
    yield Finding(
        "pins take the room",
        (),
        f"objects of {_join(pins)} are pinned",
        f"leave `pin` out: {describe_gain(gain)}",
        gain,
    )


def check_watermark(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that evict in the background so far down that they run half empty."""
    tiers = evidence.tiers_with(lambda one: one.high < 1)
    gain = evidence.measure_gain(high=1.0, low=1.0, evict_share=0.0) if tiers else None
    if gain is None:
        return
    rules = evidence.rules.tiers()[tiers[0]]
    down = f"by {rules.evict_share:.0%}" if rules.evict_share else f"down to {rules.low:.0%}"
    evicts = f"{_join(tiers)} evicts {down}"
    yield Finding(
        "evicted below the brim",
        tiers,
        f"{evicts} once above {rules.high:.0%}",
        f"set `high` and `low` to 1, `evict_share` to 0: {describe_gain(gain)}",
        gain,
    )


def check_single_uses(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find objects that are used once and push out those that are used again."""
    once, again = evidence.reuse.once_bytes, evidence.reuse.reused_bytes
    evictions = sum(evidence.count(f"evictions_{tier}") for tier in TIERS)
    if not evictions or once < ONCE * (once + again):
        return
    gain = evidence.measure_gain(POLICY_GAIN, policy="s3fifo")
    if gain is None:
        return
    yield Finding(
        "objects used once fill the tiers",
        (),
        f"{once / (once + again):.0%} of the bytes are used once",
        f"pass `policy=s3fifo`, which evicts those first: {describe_gain(gain)}",
        {"once_bytes": once, "reused_bytes": again} | gain,
    )


def _sum_refused(evidence: PlanEvidence, tiers: tuple[str, ...]) -> int:
    return sum(evidence.summary.offers.refused[TIERS.index(tier)] for tier in tiers)


def _join(names: tuple[str, ...]) -> str:
    return " and ".join(names)
