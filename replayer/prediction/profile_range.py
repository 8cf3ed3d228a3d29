"""The range of a profile: what it was measured for, and plans that leave it."""

from collections.abc import Iterator
from typing import Final, cast

from replayer.planning.plan import Plan
from replayer.prediction.profile import Profile, TierProfile
from replayer.record.conditions import Tier
from replayer.record.options import TIERS
from replayer.record.run_info import Warning  # noqa: A004 (run.json's word)
from tracegen.errors import InputError

# How many times larger objects may be, with a warning: they take more pieces of a known size
_LARGEST: Final = 64
# How many times more moves may be in flight, with a warning: they share a known bandwidth
_MOST_WORKERS: Final = 4
# Loads are means, so that those of W workers are a little below W
_TOLERANCE: Final = 1.1
# Share of objects that may be smaller than those measured without a warning. Their times are
# between the latency and the time of the smallest size, which were both measured.
_FEW: Final = 0.5


def check_range(plan: Plan, profile: Profile) -> list[Warning]:
    """Return warnings if a plan is a little outside a profile.

    Raises:
        InputError: the profile lacks a tier that the plan uses, or the plan is far outside.
    """
    names = cast("tuple[Tier, ...]", TIERS)
    warnings = list[Warning]()
    for tier in (name for name, size in zip(names, plan.usable, strict=True) if size != 0):
        found = profile.tiers.get(tier)
        if found is None:
            measured = ", ".join(profile.tiers)
            raise InputError(
                f"the plan uses the {tier} tier, and the profile has {measured} only",
                f"measure {tier} with `replayer profile`, or leave that tier out",
                subject=profile.name,
                setting="profile",
            )
        texts = (*_check_sizes(plan, profile, tier, found), *_check_load(plan, profile, tier, found))
        warnings += [Warning(kind="outside the profile", text=text) for text in texts]
    return warnings


def _check_sizes(plan: Plan, profile: Profile, name: Tier, tier: TierProfile) -> Iterator[str]:
    """Compare the sizes of a plan's objects with those that a tier was measured with.

    Raises:
        InputError: objects are far larger.
    """
    sizes = plan.workload.sizes()
    sizes = sizes[sizes > 0]  # objects of users who are left out have none
    if not len(sizes):
        return
    # Larger ones are moved in pieces, so that the largest matters, not their share.
    largest = int(sizes.max())
    limit = tier.largest_bytes
    measured = f"the profile is for objects of up to {limit:,} bytes in {name}"
    if largest > _LARGEST * limit:
        raise InputError(
            f"outside the profile: an object has {largest:,} bytes, {measured}",
            "pass a smaller `model` or `chunk_tokens`",
            subject=profile.name,
            setting="profile",
        )
    if largest > limit:
        yield f"an object has {largest:,} bytes; {measured}."
    share = float((sizes < tier.smallest_bytes).mean())
    if share > _FEW:
        measured = f"the profile is for objects from {tier.smallest_bytes:,} bytes in {name}"
        yield f"{share:.0%} of objects are smaller; {measured}."


def _check_load(plan: Plan, profile: Profile, name: Tier, tier: TierProfile) -> Iterator[str]:
    """Compare the workers with the moves in flight that a tier was measured with.

    A data sheet gives limits of all moves together, which hold for any number of them.

    Raises:
        InputError: there are far more workers.
    """
    if profile.kind != "measured":
        return
    workers = plan.options.demand.workers
    most = max(
        min(tier.read.in_flight[-1], tier.write.in_flight[-1]),
        *(cell.workers for cell in profile.cells if cell.tier == name),
        0,
    )
    measured = f"the profile is for {most:.3g} moves in flight at most in {name}"
    if workers > _MOST_WORKERS * most:
        raise InputError(
            f"outside the profile {profile.name}: {measured}",
            f"pass at most {int(_MOST_WORKERS * most)}",
            subject=workers,
            setting="workers",
        )
    if workers > _TOLERANCE * most:
        yield f"there are {workers:,} workers; {measured}."
