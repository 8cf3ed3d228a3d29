"""Checks of sizes: a tier, or all of them, is too small for what it should hold, or too large."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from replayer.diagnosis.evidence import PlanEvidence
from replayer.diagnosis.finding import Finding, format_gib, format_size
from replayer.planning.plan import PlanOptions

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
"""Share of reusable tokens below which hits are few."""
READ_OF_ENTRIES: Final = 0.001
"""Hits per object that came into a tier below which the tier is not read."""

_SETTING: Final = {"gpu": "gpu_mem_gb", "cpu": "cpu_mem_gb", "nvme": "storage_capacity_gb"}


def advise_room(options: PlanOptions, tier: str, size: float) -> str:
    """Return the clause that gives a tier more usable room than `size` bytes."""
    headroom = 1.0 if tier == "nvme" else float(options.headroom)
    return f"give {tier} more room: `{_SETTING[tier]}` above {format_gib(size / headroom)}"


def check_reuse(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find that the trace's prompts share next to nothing."""
    reuse = evidence.reuse
    if not reuse.prompt_tokens or reuse.reused_tokens >= LITTLE_REUSE * reuse.prompt_tokens:
        return
    share = reuse.reused_tokens / reuse.prompt_tokens
    yield Finding(
        "little reuse",
        (),
        f"{reuse.reused_tokens:,} of {reuse.prompt_tokens:,} prompt tokens ({share:.1%}) were in"
        " the cache's reach before, so even an unlimited cache spares no more",
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
        yield Finding(
            "no larger than the faster tier",
            (tier,),
            f"{tier} has {format_size(size)} of room and {faster} {format_size(room)}; {tier} gets"
            f" copies of what {faster} has, and {hits:,} of {evidence.reads:,} reads hit in it",
            advise_room(evidence.plan.options, tier, room) + f", or `{tier}.down` on-evict",
            {"usable_bytes": size, "faster_usable_bytes": room, "hits": hits},
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
        yield Finding(
            "prefix larger than the tier",
            (tier,),
            f"{larger:,} of {len(prefixes):,} prefixes are larger than the {format_size(size)} of"
            f" {tier}, the largest has {format_size(largest)}: its end evicts its beginning",
            advise_room(evidence.plan.options, tier, largest),
            {"prefixes": len(prefixes), "larger_prefixes": larger, "largest_bytes": largest},
        )


def check_objects(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that cannot hold many of the objects, because each is larger than the tier."""
    objects = evidence.reuse.object_bytes
    for tier, size in evidence.bounded_tiers().items():
        larger = int((objects > size).sum())
        if not larger or larger < MANY_OBJECTS * len(objects):
            continue
        largest = int(objects.max())
        yield Finding(
            "objects larger than the tier",
            (tier,),
            f"{larger:,} of {len(objects):,} objects are larger than the {format_size(size)} of"
            f" {tier}, and never enter it",
            advise_room(evidence.plan.options, tier, largest),
            {"objects": len(objects), "larger_objects": larger, "largest_bytes": largest},
        )


def check_working_set(evidence: PlanEvidence) -> Iterator[Finding]:
    """Find tiers that together are far smaller than the objects that are used again."""
    reuse = evidence.reuse
    tiers = evidence.tiers()
    inclusive = evidence.rules.copies == "inclusive"
    room = max(tiers.values()) if inclusive else sum(tiers.values())
    spared = evidence.count("spared_tokens")
    if reuse.reused_bytes <= FAR_ABOVE * room or spared >= HALF * reuse.stored_tokens:
        return
    largest = max(tiers, key=lambda tier: tiers[tier])
    yield Finding(
        "working set far above all tiers",
        (),
        f"objects that are used again take {format_size(reuse.reused_bytes)}, the tiers hold"
        f" {format_size(room)}, and hits spare {spared:,} of {reuse.stored_tokens:,} tokens",
        advise_room(evidence.plan.options, largest, reuse.reused_bytes),
        {"reused_bytes": reuse.reused_bytes, "usable_bytes": room, "spared_tokens": spared},
    )


def check_unread(evidence: PlanEvidence, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Find slower tiers that are written and not read, where no other finding names the tier."""
    named = {tier for finding in findings for tier in finding.tiers}
    for faster, tier in pairwise(evidence.tiers()):
        entries, hits = evidence.count(f"entries_{tier}"), evidence.count(f"hits_{tier}")
        written = evidence.count(f"write_bytes_{tier}")
        if tier in named or not written or hits >= max(1, READ_OF_ENTRIES * entries):
            continue
        counts = {"entries": entries, "hits": hits, "write_bytes": written}
        read = "none was read there" if not hits else f"{hits:,} reads hit there"
        got = f"{tier} got {entries:,} objects, {format_size(written)}, and {read}"
        if _evicts(evidence, faster):
            yield Finding(
                "written but never read",
                (tier,),
                got,
                f"leave {tier} out, or write less to it: `{tier}.admit_touches` 2",
                counts,
            )
        else:
            yield Finding(
                "the faster tier holds all",
                (tier,),
                f"{got}: {faster} never evicts any",
                f"leave {tier} out, or give {faster} less memory",
                counts,
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
            f"leave {tier} out, or give {faster} less memory",
            {"entries": 0, "faster_peak_bytes": held},
        )


def _evicts(evidence: PlanEvidence, tier: str) -> bool:
    """Return whether a tier evicts anything, to a slower tier or nowhere."""
    return any(evidence.count(f"{kind}_{tier}") for kind in ("demotions", "drops", "free_drops"))
