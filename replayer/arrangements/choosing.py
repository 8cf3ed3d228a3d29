"""The arrangement that settings choose: one by name, with some of its rules replaced."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from replayer.arrangements.arrangement import WATERFALL, Arrangement, Count, Seconds
from replayer.arrangements.loading import load_arrangement, load_engine
from replayer.record.columns import TIERS
from replayer.record.options import POLICIES, Policy
from tracegen.errors import InputError
from tracegen.typed_files import convert, join_words, suggest

_EXAMPLE: Final = "lru, or gpu=lru,cpu=s3fifo"


def choose_arrangement(settings: Mapping[str, Any]) -> Arrangement:
    """Return the arrangement that the settings of a plan name.

    Args:
        settings: by name; `arrangement`, `engine`, `policy`, `ttl`, `chunk_tokens` and `promote`
            count here. See `PlanSettings`.

    Raises:
        InputError: a name is unknown, two settings exclude each other, or a value is wrong.
    """
    arrangement = _find(settings.get("arrangement"), settings.get("engine"))
    policy = settings.get("policy")
    if policy is not None:
        arrangement = _with_policies(arrangement, parse_policies(policy))
    ttl, tokens = settings.get("ttl"), settings.get("chunk_tokens")
    if ttl is not None:
        ttl_s: float = convert(ttl, Seconds, ttl, "ttl")
        arrangement = replace(arrangement, ttl_s=ttl_s)
    if tokens is not None:
        whole: int = convert(tokens, Count, tokens, "chunk_tokens")
        arrangement = replace(arrangement, chunk_tokens=whole)
    return arrangement.with_promotion() if settings.get("promote") else arrangement


def _find(named: object, engine: str | None) -> Arrangement:
    if named is not None and engine is not None:
        raise InputError(
            f"`engine={engine}` names an arrangement, too",
            "pass one of the two",
            subject=named.name if isinstance(named, Arrangement) else named,
            setting="arrangement",
        )
    if engine is not None:
        return load_engine(engine)
    if named is None:
        return WATERFALL
    return named if isinstance(named, Arrangement) else load_arrangement(str(named))


def parse_policies(text: str) -> dict[str, Policy]:
    """Return the policy of each tier that a text names.

    Args:
        text: the policy of all tiers, or policies by tier, as in gpu=lru,cpu=s3fifo.

    Raises:
        InputError: a tier or a policy is unknown, or a tier is named twice.
    """
    if "=" not in text and "," not in text:
        return dict.fromkeys(TIERS, _check_policy(text.strip(), text))
    policies = dict[str, Policy]()
    for part in text.split(","):
        tier, equals, policy = (word.strip() for word in part.partition("="))
        if not equals:
            raise _error(text, f"{part.strip()!r} names no tier", f"write {_EXAMPLE}")
        if tier not in TIERS:
            raise _error(text, f"{tier!r} is not a tier", f"name {join_words(TIERS)}")
        if tier in policies:
            raise _error(text, f"{tier} has two policies", "leave one out")
        policies[tier] = _check_policy(policy, text)
    return policies


def _check_policy(name: str, text: str) -> Policy:
    if name in POLICIES:
        return name
    problem = "is unknown" if name == text else f"the policy {name!r} is unknown"
    raise _error(text, problem, suggest(name, POLICIES))


def _error(text: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=text, setting="policy")


def _with_policies(arrangement: Arrangement, policies: Mapping[str, Policy]) -> Arrangement:
    tiers = arrangement.tiers().items()
    gpu, cpu, nvme = (replace(one, policy=policies.get(tier, one.policy)) for tier, one in tiers)
    return replace(arrangement, gpu=gpu, cpu=cpu, nvme=nvme)
