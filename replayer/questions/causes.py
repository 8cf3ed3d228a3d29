"""The table of causes for which a tier brings little: the sign of each, its sentence, its remedy.

A cause is looked for in facts: the counts of the plan at hand, of a tier, and of rules. Then the
trace is planned again with the remedy, so most plans are never made, and no remedy is named that
gains nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from replayer.questions.evidence import GAIN, Finding, Gain, PlanEvidence, describe_gain
from replayer.questions.facts import Facts, Look, look_at_plan, look_at_tiers, look_for_rule

# Share of reads below which the hits in a tier are little
LITTLE: Final = 0.01
# Share of prompt tokens below which reuse is little
LITTLE_REUSE: Final = 0.05
# Share of objects, or of prefixes, from which on it matters that a tier cannot hold them
MANY: Final = 0.10
# Share of the tokens that prompts reuse below which a tier spares few of them
LITTLE_OF_PREFIXES: Final = 0.10
# Multiple of all tiers' room from which on reused objects are far above it
FAR_ABOVE: Final = 4
# Share of reusable tokens below which hits are few
HALF: Final = 0.5
# Hits per object that came into a tier below which the tier is not read
READ_OF_ENTRIES: Final = 0.001
# GAIN for another policy: policies differ by a few percent on any trace
POLICY_GAIN: Final = 0.05
# Share of requests from which on it matters that they may not ask a tier
REFUSED: Final = 0.10
# Share of reads from which on it matters that the beginning of their prefix was gone
HEADLESS: Final = 0.02
# Share of the tokens that prompts reuse from which on it matters that chunks leave them out
UNSTORED: Final = 0.05
# Share of bytes from which on objects that are used once fill the tiers
ONCE: Final = 0.50


class Cause(NamedTuple):
    """A cause; its texts are templates that facts fill.

    Attributes:
        name: as docs/why.md lists it.
        look: gives the facts to look at: of the plan, of each tier, or of the tiers with a rule.
        when: whether facts show the cause.
        problem: the clause that says so.
        remedy: what to change.
        counts: names of the facts that the finding records.
        changes: of the rules, as the remedy says; they must gain. None: nothing is planned.
        room: bytes to give to a tier, whose setting then is the remedy.
        is_in_vain: whether the tier is left out instead, which must lose nothing.
        share: of the tokens that prompts reuse, which a remedy must spare in addition.
    """

    name: str
    look: Look
    when: Callable[[Any], bool]
    problem: str
    remedy: str = ""
    counts: str = ""
    changes: Mapping[str, Any] | None = None
    room: Callable[[Any], float] | None = None
    is_in_vain: bool = False
    share: float = GAIN

    def find(self, evidence: PlanEvidence, found: list[Finding]) -> Iterator[Finding]:
        """Find the cause, unless the findings so far have it, or its remedy does not gain."""
        names = [(finding.cause, finding.tiers) for finding in found]
        for facts in self.look(evidence, found):
            if (self.name, facts.tiers) in names or not self.when(facts):
                continue
            remedy, gain = self._plan_remedy(evidence, facts)
            if gain is not None:
                counts = {name: int(getattr(facts, name)) for name in self.counts.split()}
                yield Finding(self.name, facts.tiers, self.problem.format(**vars(facts)), remedy, counts | gain)

    def _plan_remedy(self, evidence: PlanEvidence, facts: Facts) -> tuple[str, Gain | None]:
        """Plan with the remedy; return its clause, and what it gains or None."""
        remedy = self.remedy.format(**vars(facts))
        if self.room is not None:
            return evidence.plan_room(facts.largest, self.room(facts), "".join(facts.tiers))
        if self.is_in_vain:
            share = evidence.share_without(facts.tier)
            return (
                f"{remedy}: {share or 0:.1%} of prompt tokens hit without {facts.tier}, too",
                None if share is None else {},
            )
        if self.changes is None:
            return remedy, {}
        gain = evidence.measure_gain(self.share, **self.changes)
        return (f"{remedy}: {describe_gain(gain)}", gain) if gain else (remedy, None)


_FAR_ABOVE: Final = "working set far above all tiers"
_LOOP: Final = "loop larger than the tiers"
_TOO_SMALL: Final = "tiers too small"
_REUSE: Final = (
    "{reused_tokens:,} of {prompt_tokens:,} prompt tokens ({reused_share:.1%}) were asked for"
    " before, so even an unlimited cache spares no more"
)
_OTHER_TRACE: Final = "use a trace whose prompts share text; no memory helps this one"
_LIMIT: Final = "{refused:,} of {requests:,} requests may not ask {tier}: the limit is {limit_tokens:,} tokens"
_TAILS: Final = (
    "chunks of {chunk_tokens:,} tokens leave out {unstored_tokens:,} of {reused_tokens:,} tokens"
    " that prompts use again ({unstored_share:.1%})"
)
_ROOM: Final = (
    "objects that are used again take {reused_bytes}, the tiers hold {usable_bytes}, and hits spare"
    " {spared_tokens:,} of {stored_tokens:,} tokens"
)


def _is_limited(facts: Any) -> bool:
    is_refused: bool = facts.refused >= max(1, REFUSED * facts.requests)
    return facts.limit_tokens is not None and is_refused


def _loses_tails(facts: Any) -> bool:
    is_much: bool = facts.unstored_tokens >= max(1, UNSTORED * facts.reused_tokens)
    return facts.chunk_tokens > 0 and is_much


def _has_lack(name: str, facts: Any) -> bool:
    """Return whether a cause of tiers that are too small is the one that fits."""
    is_above = facts.reused_bytes > facts.usable_bytes
    if not is_above or facts.spared_tokens >= HALF * facts.stored_tokens:
        return facts.may_grow and name == _TOO_SMALL
    is_far = facts.reused_bytes > FAR_ABOVE * facts.usable_bytes
    return facts.may_grow and name == (_FAR_ABOVE if is_far else _LOOP)


def _is_unread(facts: Any) -> bool:
    is_read = facts.hits >= max(1, READ_OF_ENTRIES * facts.entries)
    return bool(facts.write_bytes and not is_read and not facts.is_named)


# Causes in the trace: without reuse, nothing else is looked for
REUSE_CAUSES: Final = tuple(
    Cause(name, look_at_plan, when, _REUSE, _OTHER_TRACE, "prompt_tokens reused_tokens")
    for name, when in (
        ("no reuse", lambda facts: not facts.reused_tokens),
        ("little reuse", lambda facts: 0 < facts.reused_share < LITTLE_REUSE),
    )
)
# The causes in the order in which they are looked for; a later one may depend on findings
CAUSES: Final = (
    Cause(
        "no larger than the faster tier",
        look_at_tiers,
        lambda facts: (
            (facts.copies == "inclusive" and facts.down != "on-evict")
            and facts.usable_bytes <= facts.faster_usable_bytes
            and facts.hits < LITTLE * facts.reads
        ),
        "{tier} has {usable_bytes} of room and {faster} {faster_usable_bytes}; {tier} gets copies"
        " of what {faster} has, and {hits:,} of {reads:,} reads hit in it",
        counts="usable_bytes faster_usable_bytes hits",
        room=lambda facts: 2 * facts.faster_usable_bytes,
    ),
    Cause(
        "prefix larger than the tier",
        look_at_tiers,
        lambda facts: (
            (facts.is_contiguous and facts.larger_prefixes >= max(1, MANY * facts.prefixes))
            and facts.spared_tokens < LITTLE_OF_PREFIXES * facts.stored_tokens
        ),
        "{larger_prefixes:,} of {prefixes:,} prefixes are larger than the {usable_bytes} of {tier},"
        " the largest has {largest_prefix}: its end evicts its beginning",
        counts="prefixes larger_prefixes largest_prefix",
        room=lambda facts: facts.largest_prefix,
    ),
    Cause(
        "objects larger than the tier",
        look_at_tiers,
        lambda facts: facts.larger_objects >= max(1, MANY * facts.objects),
        "{larger_objects:,} of {objects:,} objects are larger than the {usable_bytes} of {tier}",
        counts="objects larger_objects largest_object",
        room=lambda facts: facts.largest_object,
    ),
    Cause(
        "the faster tier holds all",
        look_at_tiers,
        lambda facts: facts.is_unused and facts.is_spare and facts.admit_touches == 1,
        "nothing enters {tier}: {faster} never evicts, and holds {faster_peak_bytes} at most",
        "pass `{setting}=0`, or give {faster} less memory",
        "entries faster_peak_bytes",
    ),
    Cause(
        "limit of tokens in flight",
        look_at_tiers,
        _is_limited,
        _LIMIT,
        "set `fetch_in_flight` and `fetch_share` to 0",
        "limit_tokens refused asked",
        {"fetch_in_flight": 0, "fetch_share": 0.0},
    ),
    Cause(
        "limit of tokens in flight",
        look_at_tiers,
        lambda facts: _is_limited(facts) and facts.tier == "cpu",
        _LIMIT,
        counts="limit_tokens refused asked",
        # The limit is a share of what cpu has more than gpu.
        room=lambda facts: 2 * facts.faster_usable_bytes,
    ),
    Cause(
        "asked only for many tokens",
        look_for_rule(lambda rules: rules.fetch_tokens > 0, "fetches_refused"),
        lambda facts: facts.refused > 0,
        "{tier} may be asked only for many tokens, and {refused:,} requests miss fewer",
        "set `fetch_tokens` to 0",
        "refused",
        {"fetch_tokens": 0},
    ),
    Cause(
        "the beginning of prefixes is lost",
        look_at_plan,
        lambda facts: facts.headless >= max(1, HEADLESS * facts.reads),
        "{headless:,} reads miss what a tier holds, because an earlier object is gone",
        "pass `policy=leaf-lru`, which evicts ends first",
        "headless",
        {"policy": "leaf-lru"},
    ),
    *(
        Cause(
            "tail tokens are never stored",
            look_at_plan,
            _loses_tails,
            _TAILS,
            remedy,
            "chunk_tokens unstored_tokens reused_tokens",
            changes,
        )
        for remedy, changes in (
            ("set `tail` to keep", {"tail": "keep"}),
            ("pass `chunk_tokens=0`", {"chunk_tokens": 0}),
        )
    ),
    Cause(
        "taken only after several touches",
        look_for_rule(lambda rules: rules.admit_touches > 1),
        lambda facts: facts.refused > 0,
        "{tier} refused {refused:,} objects before touch {admit_touches}, so first reuses miss",
        "set `admit_touches` to 1, if the tier bears the writes",
        "admit_touches refused",
        {"admit_touches": 1},
    ),
    Cause(
        "copied only after several touches",
        look_for_rule(lambda rules: rules.down == "on-touch" and rules.touches > 1),
        lambda _facts: True,
        "{tier} gets an object after {touches} touches, so what is evicted before is lost",
        "set `touches` to 1",
        "touches",
        {"touches": 1},
    ),
    Cause(
        "expiry before reuse",
        look_at_plan,
        lambda facts: facts.ttl_s > 0,
        "objects expire {ttl_s:,g} s after their last touch",
        "pass `ttl=0`",
        changes={"ttl_s": 0.0},
    ),
    Cause(
        "evicted below the brim",
        look_for_rule(lambda rules: rules.high < 1),
        lambda _facts: True,
        "{tier} evicts once above {high:.0%}, down to {low:.0%} or by {evict_share:.0%}",
        "set `high` and `low` to 1, `evict_share` to 0",
        changes={"high": 1.0, "low": 1.0, "evict_share": 0.0},
    ),
    Cause(
        "objects used once fill the tiers",
        look_at_plan,
        lambda facts: facts.evictions and facts.once_share >= ONCE,
        "{once_share:.0%} of the bytes are used once",
        "pass `policy=s3fifo`, which evicts those first",
        "once_bytes reused_bytes",
        {"policy": "s3fifo"},
        share=POLICY_GAIN,
    ),
    *(
        Cause(
            name,
            look_at_plan,
            partial(_has_lack, name),
            _ROOM,
            counts="reused_bytes usable_bytes",
            room=lambda facts: min(facts.reused_bytes, 2 * facts.usable_bytes),
        )
        for name in (_FAR_ABOVE, _LOOP, _TOO_SMALL)
    ),
    *(
        Cause(
            name,
            look_at_tiers,
            when,
            "{tier} got {entries:,} objects, {write_bytes}, and {hits:,} reads hit there" + but,
            "pass `{setting}=0`",
            "entries hits write_bytes",
            is_in_vain=True,
        )
        for name, when, but in (
            ("the faster tier holds all", lambda facts: _is_unread(facts) and facts.is_spare, ": {faster} evicts none"),
            ("written but never read", lambda facts: _is_unread(facts) and facts.is_spare is False, ""),
        )
    ),
)
