"""Checks of rules: the trace is planned again with a rule changed, to see what the rule costs.

Each check first looks at the counts of the plan at hand. It plans again only if the rule is there
and has had an effect, so most plans are never made.
"""

from collections.abc import Iterator
from typing import Final

from replayer.bindings.compiled import UNLIMITED
from replayer.diagnosis.evidence import PlanEvidence
from replayer.diagnosis.finding import Finding
from replayer.record.columns import TIERS

GAIN: Final = 0.01
"""Share of reads that must hit in addition without a rule, for the rule to be named."""
POLICY_GAIN: Final = 0.05
"""The same for another policy: policies differ by a few percent on any trace."""
REFUSED: Final = 0.10
"""Share of requests from which on it matters that they may not ask a tier."""
HEADLESS: Final = 0.02
"""Share of reads from which on it matters that the beginning of their prefix was gone."""
UNSTORED: Final = 0.05
"""Share of the tokens that prompts reuse from which on it matters that chunks leave them out."""
ONCE: Final = 0.50
"""Share of bytes from which on objects that are used once fill the tiers."""


def measure_gain(
    evidence: PlanEvidence,
    share: float = GAIN,
    **changes: object,
) -> dict[str, int] | None:
    """Plan again with rules changed; return the counts if enough reads hit in addition.

    Args:
        evidence: of the plan at hand.
        share: of the reads, which must hit in addition.
        changes: see `PlanEvidence.replan_hits`.
    """
    hits = evidence.count("hits")
    possible = evidence.reads - hits
    if not evidence.reads or possible < share * evidence.reads:
        return None
    more = evidence.replan_hits(**changes) - hits
    if more < max(1, share * evidence.reads):
        return None
    return {"reads": evidence.reads, "hits": hits, "more_hits": more}


def describe_gain(counts: dict[str, int]) -> str:
    """Return the clause that says how many reads would hit in addition."""
    more, reads = counts["more_hits"], counts["reads"]
    return f"{more:,} more of {reads:,} reads hit (+{more / reads:.1%})"


def check_limit_in_flight(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that requests may not ask, because other requests' tokens are in flight."""
    rules = evidence.plan.rules()
    offers = evidence.summary.offers
    gain: dict[str, int] | None = None
    for tier in evidence.tiers_with(lambda one: bool(one.fetch_in_flight or one.fetch_share)):
        code = TIERS.index(tier)
        limit = int(rules.tier[code].fetch_in_flight)
        refused, asked = offers.fetches_refused[code], offers.fetches[code]
        if tier == "gpu" or limit == UNLIMITED or refused < max(1, REFUSED * (refused + asked)):
            continue
        gain = measure_gain(evidence, fetch_in_flight=0, fetch_share=0.0)
        if gain is None and limit:
            continue
        more = f"; without the limit {describe_gain(gain)}" if gain else ""
        share = evidence.rules.tiers()[tier].fetch_share
        raise_it = f"raise `{tier}.fetch_in_flight`"
        if share and limit < UNLIMITED:
            raise_it = "give cpu more than gpu: `cpu_mem_gb`, or set `fetch_share` to 0"
        yield Finding(
            "limit of tokens in flight",
            (tier,),
            f"{refused:,} of {refused + asked:,} requests may not ask {tier}: {limit:,} tokens in"
            f" flight are the most{more}",
            raise_it,
            {"limit_tokens": limit, "refused": refused, "asked": asked} | (gain or {}),
        )


def check_fetch_tokens(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that are asked only for many tokens."""
    offers = evidence.summary.offers
    tiers = evidence.tiers_with(lambda one: one.fetch_tokens > 0)
    refused = sum(offers.fetches_refused[TIERS.index(tier)] for tier in tiers)
    gain = measure_gain(evidence, fetch_tokens=0) if refused else None
    if gain is None:
        return
    yield Finding(
        "asked only for many tokens",
        tiers,
        f"{_join(tiers)} may be asked only for many tokens, and {refused:,} requests miss fewer;"
        f" without the rule {describe_gain(gain)}",
        "lower `fetch_tokens`",
        {"refused": refused} | gain,
    )


def check_heads(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find prefixes that lost their beginning though tiers hold the rest."""
    if evidence.headless < max(1, HEADLESS * evidence.reads):
        return
    gain = measure_gain(evidence, policy="leaf-lru")
    if gain is None:
        return
    yield Finding(
        "the beginning of prefixes is lost",
        tuple(evidence.bounded_tiers()),
        f"{evidence.headless:,} reads miss what a tier holds, because an earlier object is gone;"
        f" if ends go first {describe_gain(gain)}",
        "evict ends first: `policy=leaf-lru`, or `recency` tail-first",
        {"headless": evidence.headless} | gain,
    )


def check_tails(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tokens that no tier stores, because the prompt ends inside a chunk."""
    tokens, reuse = evidence.rules.chunk_tokens, evidence.reuse
    lost = reuse.reused_tokens - reuse.stored_tokens
    if not tokens or lost < max(1, UNSTORED * reuse.reused_tokens):
        return
    yield Finding(
        "tail tokens are never stored",
        (),
        f"chunks of {tokens:,} tokens leave out {lost:,} of {reuse.reused_tokens:,} tokens that"
        f" prompts use again ({lost / reuse.reused_tokens:.1%})",
        "use smaller chunks: `chunk_tokens`, or `tail` keep",
        {"chunk_tokens": tokens, "unstored_tokens": lost, "reused_tokens": reuse.reused_tokens},
    )


def check_admission(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that take an object only after several touches."""
    tiers = evidence.tiers_with(lambda one: one.admit_touches > 1)
    refused = _sum_refused(evidence, tiers)
    gain = measure_gain(evidence, admit_touches=1) if refused else None
    if gain is None:
        return
    touches = max(evidence.rules.tiers()[tier].admit_touches for tier in tiers)
    yield Finding(
        "taken only after several touches",
        tiers,
        f"{_join(tiers)} refused {refused:,} objects before their touch {touches}, so first reuses"
        f" miss; without the rule {describe_gain(gain)}",
        "set `admit_touches` to 1, if the tier bears the writes",
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
    gain = measure_gain(evidence, admit_table=0) if keys > table else None
    if gain is None:
        return
    yield Finding(
        "counting table too small",
        tiers,
        f"{_join(tiers)} counts the touches of {table:,} of {keys:,} objects, and forgets the"
        f" others between two touches; with a count of all {describe_gain(gain)}",
        f"raise `admit_table` to {keys:,}, or set it to 0",
        {"admit_table": table, "objects": keys, "refused": refused} | gain,
    )


def check_on_touch(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that get an object only after it was touched several times in a faster one."""
    tiers = evidence.tiers_with(lambda one: one.down == "on-touch" and one.touches > 1)
    gain = measure_gain(evidence, touches=1) if tiers else None
    if gain is None:
        return
    touches = max(evidence.rules.tiers()[tier].touches for tier in tiers)
    yield Finding(
        "copied only after several touches",
        tiers,
        f"{_join(tiers)} gets an object after {touches} touches, so what is evicted before is lost;"
        f" with copies at once {describe_gain(gain)}",
        f"set `{tiers[0]}.down` to on-store",
        {"touches": touches} | gain,
    )


def check_expiry(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find objects that expire before they are used again."""
    ttl = evidence.rules.ttl_s
    gain = measure_gain(evidence, ttl_s=0.0) if ttl else None
    if gain is None:
        return
    yield Finding(
        "expiry before reuse",
        (),
        f"objects expire {ttl:,g} s after their last touch; without expiry {describe_gain(gain)}",
        "raise `ttl`, or set it to 0",
        gain,
    )


def check_quota(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find quotas that evict objects which are used again."""
    tiers = evidence.tiers_with(lambda one: one.user_quota < 1)
    gain = measure_gain(evidence, user_quota=1.0) if tiers else None
    if gain is None:
        return
    quota = min(evidence.rules.tiers()[tier].user_quota for tier in tiers)
    yield Finding(
        "quota per user",
        tiers,
        f"a user may fill {quota:.1%} of {_join(tiers)}; without quotas {describe_gain(gain)}",
        "raise `user_quota`",
        gain,
    )


def check_pins(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find pinned objects that take the room of those that are used again."""
    pins = evidence.rules.pin
    gain = measure_gain(evidence, pin=()) if pins else None
    if gain is None:
        return
    yield Finding(
        "pins take the room",
        (),
        f"objects of {_join(pins)} are pinned; without pins {describe_gain(gain)}",
        "pin fewer sources: `pin`",
        gain,
    )


def check_watermark(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that evict in the background so far down that they run half empty."""
    tiers = evidence.tiers_with(lambda one: one.high < 1)
    gain = measure_gain(evidence, high=1.0, low=1.0, evict_share=0.0) if tiers else None
    if gain is None:
        return
    rules = evidence.rules.tiers()[tiers[0]]
    down = f"by {rules.evict_share:.0%}" if rules.evict_share else f"down to {rules.low:.0%}"
    evicts = f"{_join(tiers)} evicts {down}"
    yield Finding(
        "evicted below the brim",
        tiers,
        f"{evicts} once above {rules.high:.0%}; if it evicted at the brim {describe_gain(gain)}",
        "raise `low`, or lower `evict_share`",
        gain,
    )


def check_single_uses(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find objects that are used once and push out those that are used again."""
    once, again = evidence.reuse.once_bytes, evidence.reuse.reused_bytes
    evictions = sum(evidence.count(f"evictions_{tier}") for tier in TIERS)
    if not evictions or once < ONCE * (once + again):
        return
    gain = measure_gain(evidence, POLICY_GAIN, policy="s3fifo")
    if gain is None:
        return
    yield Finding(
        "objects used once fill the tiers",
        (),
        f"{once / (once + again):.0%} of the bytes are used once; under s3fifo, which evicts those"
        f" first, {describe_gain(gain)}",
        "pass `policy=s3fifo`",
        {"once_bytes": once, "reused_bytes": again} | gain,
    )


def _sum_refused(evidence: PlanEvidence, tiers: tuple[str, ...]) -> int:
    return sum(evidence.summary.offers.refused[TIERS.index(tier)] for tier in tiers)


def _join(names: tuple[str, ...]) -> str:
    return " and ".join(names)
