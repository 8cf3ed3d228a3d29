"""The arrangement that settings choose: one by name, with some of its rules replaced."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replayer.arrangements.arrangement import WATERFALL, Arrangement, Count, Seconds
from replayer.arrangements.loading import load_arrangement
from replayer.record.options import POLICIES, TIERS, Policy, split_tier
from tracegen.errors import InputError
from tracegen.typed_files import convert, suggest


def choose_arrangement(
    named: str | Arrangement = WATERFALL,
    policy: str | None = None,
    ttl_s: float | None = None,
    chunk_tokens: int | None = None,
    *,
    promote: bool = False,
) -> Arrangement:
    """Return an arrangement with some of its rules replaced; None keeps the arrangement's own.

    Args:
        named: the arrangement, its name, or its file.
        policy: see `parse_policies`.
        ttl_s: seconds after its last touch at which an object expires; 0: never.
        chunk_tokens: tokens of a chunk in which prompts are stored; 0: as in the trace.
        promote: whether to move an object that is read to the fastest tier that can hold it.

    Raises:
        InputError: a name is unknown, or a value is wrong.
    """
    arrangement = named if isinstance(named, Arrangement) else load_arrangement(named)
    if policy is not None:
        arrangement = _with_policies(arrangement, parse_policies(policy))
    if ttl_s is not None:
        seconds: float = convert(ttl_s, Seconds, ttl_s, "ttl")
        arrangement = replace(arrangement, ttl_s=seconds)
    if chunk_tokens is not None:
        whole: int = convert(chunk_tokens, Count, chunk_tokens, "chunk_tokens")
        arrangement = replace(arrangement, chunk_tokens=whole)
    return arrangement.with_promotion() if promote else arrangement


def parse_policies(text: str) -> dict[str, Policy]:
    """Return the policy of each tier that a text names.

    Args:
        text: the policy of all tiers, or policies by tier, as in gpu=lru,cpu=s3fifo.

    Raises:
        InputError: a tier or a policy is unknown.
    """
    # A single word holds for all tiers.
    if "=" not in text and "," not in text:
        return dict.fromkeys(TIERS, _check_policy(text.strip(), text))
    policies = dict[str, Policy]()
    for part in text.split(","):
        try:
            tier, policy = split_tier(part, "gpu=lru,cpu=s3fifo")
        except ValueError as error:
            raise InputError(str(error), subject=text, setting="policy") from None
        policies[tier] = _check_policy(policy, text)
    return policies


def _check_policy(name: str, text: str) -> Policy:
    if name in POLICIES:
        return name
    problem = "is unknown" if name == text else f"the policy {name!r} is unknown"
    raise InputError(problem, suggest(name, POLICIES), subject=text, setting="policy")


def _with_policies(arrangement: Arrangement, policies: Mapping[str, Policy]) -> Arrangement:
    tiers = arrangement.tiers()
    changed: dict[str, Any] = {tier: replace(tiers[tier], policy=policy) for tier, policy in policies.items()}
    return replace(arrangement, **changed)
