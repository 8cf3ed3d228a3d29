"""The facts that show causes: of a plan, of its tiers, and of the tiers with a rule."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from types import SimpleNamespace

from replayer.arrangements.arrangement import TierRules
from replayer.bindings.compiled import UNLIMITED
from replayer.questions.evidence import SETTINGS, Finding, PlanEvidence
from replayer.record.options import TIERS
from views.numbers import format_value

# Facts by name; `tiers` are those that they are about
Facts = SimpleNamespace
# Reader of facts: takes the evidence, and the findings so far
Look = Callable[[PlanEvidence, Sequence[Finding]], Iterator[Facts]]


class _Size(int):
    """A number of bytes, which a text gives in the unit that suits it."""

    def __str__(self) -> str:
        return format_value(int(self), "bytes")


def look_at_plan(evidence: PlanEvidence, found: Sequence[Finding]) -> Iterator[Facts]:
    """Yield the facts of the whole plan."""
    rules, reuse, tiers = evidence.rules, evidence.reuse, evidence.bounded_tiers()
    largest = max(reversed(tiers), key=lambda tier: tiers[tier], default="")
    advised = " ".join(finding.remedy for finding in found)
    rooms = tiers.values()
    prompt_tokens = evidence.count("prompt_tokens")
    all_bytes = reuse.once_bytes + reuse.reused_bytes
    yield Facts(
        tiers=(),
        largest=largest,
        reads=evidence.count("reads"),
        prompt_tokens=prompt_tokens,
        spared_tokens=evidence.count("spared_tokens"),
        reused_tokens=reuse.reused_tokens,
        stored_tokens=reuse.stored_tokens,
        reused_share=reuse.reused_tokens / max(1, prompt_tokens),
        unstored_tokens=reuse.reused_tokens - reuse.stored_tokens,
        unstored_share=1 - reuse.stored_tokens / max(1, reuse.reused_tokens),
        reused_bytes=_Size(reuse.reused_bytes),
        once_bytes=_Size(reuse.once_bytes),
        once_share=reuse.once_bytes / max(1, all_bytes),
        headless=evidence.counts.table("headless"),
        evictions=sum(evidence.count(f"evictions_{tier}") for tier in TIERS),
        usable_bytes=_Size(max(rooms, default=0) if rules.copies == "inclusive" else sum(rooms)),
        may_grow=len(tiers) == len(evidence.tiers()) and SETTINGS[largest] not in advised,
        chunk_tokens=rules.chunk_tokens,
        ttl_s=rules.ttl_s,
    )


def look_for_rule(has_rule: Callable[[TierRules], bool], refused: str = "refused") -> Look:
    """Return a reader of the facts of all tiers that have a rule, together.

    Args:
        has_rule: whether a tier has it.
        refused: name of what it refuses in the placement's account.
    """

    def look(evidence: PlanEvidence, _found: Sequence[Finding]) -> Iterator[Facts]:
        tiers = evidence.tiers_with(has_rule)
        if tiers:
            rules, account = evidence.rules.tiers()[tiers[0]], evidence.counts.account
            codes = [TIERS.index(tier) for tier in tiers]
            yield Facts(
                **asdict(rules),
                tiers=tiers,
                tier=" and ".join(tiers),
                refused=sum(getattr(account, refused)[code] for code in codes),
            )

    return look


def look_at_tiers(evidence: PlanEvidence, found: Sequence[Finding]) -> Iterator[Facts]:
    """Yield the facts of each tier that exists, with those of the next faster one."""
    tiers, reuse, account = evidence.tiers(), evidence.reuse, evidence.counts.account
    named = {tier for finding in found for tier in finding.tiers}
    for faster, tier in pairwise(["", *tiers]):
        code, room = TIERS.index(tier), tiers[tier]
        limit = int(evidence.plan.rules().tier[code].fetch_in_flight)
        refused, asked = account.fetches_refused[code], account.fetches[code]
        counted = {name: evidence.count(f"{name}_{tier}") for name in ("hits", "entries", "spared_tokens")}
        yield Facts(
            **asdict(evidence.rules.tiers()[tier]),
            tiers=(tier,),
            tier=tier,
            largest=tier,
            setting=SETTINGS[tier],
            faster=faster,
            copies=evidence.rules.copies,
            is_contiguous=evidence.plan.lookup == "contiguous",
            is_unused=tier in evidence.bounded_tiers() and not counted["entries"],
            is_spare=not evidence.count_evictions(faster) if faster else None,
            is_named=tier in named,
            reads=evidence.count("reads"),
            **counted,
            write_bytes=_Size(evidence.count(f"write_bytes_{tier}")),
            stored_tokens=reuse.stored_tokens,
            usable_bytes=_Size(room),
            faster_usable_bytes=_Size(tiers.get(faster, 0)),
            faster_peak_bytes=_Size(evidence.count(f"peak_bytes_{faster}") if faster else 0),
            prefixes=len(reuse.prefix_bytes),
            larger_prefixes=int((reuse.prefix_bytes > room).sum()),
            largest_prefix=_Size(reuse.prefix_bytes.max(initial=0)),
            objects=len(reuse.object_bytes),
            larger_objects=int((reuse.object_bytes > room).sum()),
            largest_object=_Size(reuse.object_bytes.max(initial=0)),
            limit_tokens=None if tier == "gpu" or limit == UNLIMITED else limit,
            refused=refused,
            asked=asked,
            requests=refused + asked,
        )
