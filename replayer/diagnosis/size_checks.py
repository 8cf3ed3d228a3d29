"""Checks of sizes: a tier, or all of them, is too small for what it should hold, or too large."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final

from replayer.diagnosis.evidence import LEAST_GAIN, PlanEvidence
from replayer.diagnosis.finding import Finding, describe_gain, format_gib, format_size

LITTLE: Final = 0.01
"""Share of reads below which the hits in a tier are little."""
LITTLE_REUSE: Final = 0.05
"""Share of prompt tokens below which reuse is little."""
MANY_PREFIXES: Final = 0.10
"""Share of requests from which on it matters that their prefixes do not fit."""
LITTLE_OF_PREFIXES: Final = 0.10
"""Share of the tokens that prompts reuse below which a tier spares few of them."""
MANY_OBJECTS: Final = 0.10
"""Share of objects from which on it matters that a tier cannot hold them."""
FAR_ABOVE: Final = 4
"""Multiple of all tiers' room from which on reused objects are far above it."""
HALF: Final = 0.5
"""Share of reusable tokens below which hits are few, and of a gain from which it is most of it."""
ENOUGH: Final = 0.9
"""Share of reusable tokens from which on tiers are large enough."""
READ_OF_ENTRIES: Final = 0.001
"""Hits per object that came into a tier below which the tier is not read."""

_SETTING: Final = {"gpu": "gpu_mem_gb", "cpu": "cpu_mem_gb", "nvme": "storage_capacity_gb"}


def plan_room(
    evidence: PlanEvidence,
    tier: str,
    size: float,
    within: str = "",
) -> tuple[str, dict[str, int]] | None:
    """Plan with more room in a tier; return the clause that gives it and its gain; or None.

    Args:
        evidence: of the plan at hand.
        tier: gets more room.
        size: usable bytes to try; also those of all objects used again, and of all objects. The
            least that gains half of what the next gains is named.
        within: the tier whose hits count; all by default.
    """
    headroom = 1.0 if tier == "nvme" else float(evidence.plan.options.headroom)
    reuse = evidence.reuse
    larger = (reuse.reused_bytes, int(reuse.object_bytes.sum()))
    sizes = {size, *(max(size, one) for one in larger)}
    best: tuple[str, dict[str, int]] | None = None
    for one in sorted(sizes, reverse=True):
        gib = format_gib(one / headroom)
        gain = evidence.measure_gain(sizes={tier: Decimal(gib)}, within=within)
        more = HALF * best[1]["more_spared_tokens"] if best else 0
        if gain is None or gain["more_spared_tokens"] < more:
            break
        best = f"pass `{_SETTING[tier]}={gib}`: {describe_gain(gain, within)}", gain
    return best


def check_reuse(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find that the trace's prompts share next to nothing."""
    reuse = evidence.reuse
    if not reuse.prompt_tokens or reuse.reused_tokens >= LITTLE_REUSE * reuse.prompt_tokens:
        return
    share = reuse.reused_tokens / reuse.prompt_tokens
    yield Finding(
        "little reuse" if reuse.reused_tokens else "no reuse",
        (),
        f"{reuse.reused_tokens:,} of {reuse.prompt_tokens:,} prompt tokens ({share:.1%}) were asked"
        " for before, so even an unlimited cache spares no more",
        "use a trace whose prompts share text; no memory helps this one",
        {"prompt_tokens": reuse.prompt_tokens, "reused_tokens": reuse.reused_tokens},
    )


def check_larger(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find inclusive tiers that are no larger than a faster one."""
    if evidence.rules.copies != "inclusive":
        return
    rules = evidence.rules.tiers()
    for (faster, room), (tier, size) in pairwise(evidence.tiers().items()):
        hits = evidence.count(f"hits_{tier}")
        if rules[tier].down == "on-evict" or size > room or hits >= LITTLE * evidence.reads:
            continue
        planned = plan_room(evidence, tier, 2 * room, tier)
        if planned is None:
            continue
        remedy, gain = planned
        yield Finding(
            "no larger than the faster tier",
            (tier,),
            f"{tier} has {format_size(size)} of room and {faster} {format_size(room)}; {tier} gets"
            f" copies of what {faster} has, and {hits:,} of {evidence.reads:,} reads hit in it",
            remedy,
            {"usable_bytes": size, "faster_usable_bytes": room, "hits": hits} | gain,
        )


def check_prefixes(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that are smaller than the prefixes that requests look up."""
    prefixes = evidence.reuse.prefix_bytes
    if evidence.plan.lookup != "contiguous" or not len(prefixes):
        return
    for tier, size in evidence.bounded_tiers().items():
        larger = int((prefixes > size).sum())
        spared = evidence.count(f"spared_tokens_{tier}")
        is_used = spared >= LITTLE_OF_PREFIXES * evidence.reuse.stored_tokens
        if larger < MANY_PREFIXES * len(prefixes) or is_used:
            continue
        largest = int(prefixes.max())
        planned = plan_room(evidence, tier, largest, tier)
        if planned is None:
            continue
        remedy, gain = planned
        yield Finding(
            "prefix larger than the tier",
            (tier,),
            f"{larger:,} of {len(prefixes):,} prefixes are larger than the {format_size(size)} of"
            f" {tier}, the largest has {format_size(largest)}: its end evicts its beginning",
            remedy,
            {"prefixes": len(prefixes), "larger_prefixes": larger, "largest_bytes": largest} | gain,
        )


def check_objects(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that cannot hold many of the objects, because each is larger than the tier."""
    objects = evidence.reuse.object_bytes
    for tier, size in evidence.bounded_tiers().items():
        larger = int((objects > size).sum())
        if not larger or larger < MANY_OBJECTS * len(objects):
            continue
        largest = int(objects.max())
        planned = plan_room(evidence, tier, largest, tier)
        if planned is None:
            continue
        remedy, gain = planned
        yield Finding(
            "objects larger than the tier",
            (tier,),
            f"{larger:,} of {len(objects):,} objects are larger than the {format_size(size)} of"
            f" {tier}, and never enter it",
            remedy,
            {"objects": len(objects), "larger_objects": larger, "largest_bytes": largest} | gain,
        )


def check_room(evidence: PlanEvidence, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Find tiers that together are too small, unless a finding gives the largest more room."""
    reuse, tiers = evidence.reuse, evidence.bounded_tiers()
    spared = evidence.count("spared_tokens")
    largest = max(reversed(tiers), key=lambda tier: tiers[tier], default="")
    is_advised = any(_SETTING.get(largest, "") in finding.remedy for finding in findings)
    if len(tiers) < len(evidence.tiers()) or is_advised or spared >= ENOUGH * reuse.stored_tokens:
        return
    room = max(tiers.values()) if evidence.rules.copies == "inclusive" else sum(tiers.values())
    cause = "tiers too small"
    if reuse.reused_bytes > room and spared < HALF * reuse.stored_tokens:
        is_far = reuse.reused_bytes > FAR_ABOVE * room
        cause = "working set far above all tiers" if is_far else "loop larger than the tiers"
    planned = plan_room(evidence, largest, min(reuse.reused_bytes, 2 * room))
    if planned is None:
        return
    remedy, gain = planned
    yield Finding(
        cause,
        (),
        f"objects that are used again take {format_size(reuse.reused_bytes)}, the tiers hold"
        f" {format_size(room)}, and hits spare {spared:,} of {reuse.stored_tokens:,} tokens",
        remedy,
        {"reused_bytes": reuse.reused_bytes, "usable_bytes": room} | gain,
    )


def check_unread(evidence: PlanEvidence, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Find slower tiers that are written and not read, where no other finding names the tier."""
    named = {tier for finding in findings for tier in finding.tiers}
    prompt, spared = evidence.count("prompt_tokens"), evidence.count("spared_tokens")
    for faster, tier in pairwise(evidence.tiers()):
        entries, hits = evidence.count(f"entries_{tier}"), evidence.count(f"hits_{tier}")
        written = evidence.count(f"write_bytes_{tier}")
        if tier in named or not written or hits >= max(1, READ_OF_ENTRIES * entries):
            continue
        without = evidence.replan({tier: Decimal(0)})
        if without < spared - LEAST_GAIN * prompt:  # what it holds is read in another tier
            continue
        read = "none was read there" if not hits else f"{hits:,} reads hit there"
        got = f"{tier} got {entries:,} objects, {format_size(written)}, and {read}"
        evicts = _evicts(evidence, faster)
        yield Finding(
            "written but never read" if evicts else "the faster tier holds all",
            (tier,),
            got if evicts else f"{got}: {faster} never evicts any",
            f"pass `{_SETTING[tier]}=0`: {without / prompt:.1%} of prompt tokens hit without {tier}, too",
            {"entries": entries, "hits": hits, "write_bytes": written},
        )


def check_unused(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find slower tiers with a limit of their own that nothing ever enters."""
    for faster, tier in pairwise(evidence.tiers()):
        if tier not in evidence.bounded_tiers() or evidence.count(f"entries_{tier}"):
            continue
        if evidence.rules.tiers()[tier].admit_touches > 1:
            continue
        held = evidence.count(f"peak_bytes_{faster}")
        if _evicts(evidence, faster):
            continue
        yield Finding(
            "the faster tier holds all",
            (tier,),
            f"nothing enters {tier}: {faster} never evicts, and holds {format_size(held)} at most",
            f"pass `{_SETTING[tier]}=0`, or give {faster} less memory",
            {"entries": 0, "faster_peak_bytes": held},
        )


def _evicts(evidence: PlanEvidence, tier: str) -> bool:
    """Return whether a tier evicts anything, to a slower tier or nowhere."""
    return any(evidence.count(f"{kind}_{tier}") for kind in ("demotions", "drops", "free_drops"))
