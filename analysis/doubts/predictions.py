"""Doubts about predictions, and the words for what a run was predicted from."""

from typing import Final

from analysis.doubts.evidence import Evidence, Found
from analysis.runs.run import Doubt
from replayer.schema import Conditions, PredictionInfo

# The advice where a run leaves the range of its profile.
WIDER: Final = "measure a profile that covers it, or trust the prediction less"
_THROTTLED: Final = "a throttled tier"
# The median and the 90% quantile of |error| by kind of tier.
#
# Each is over the 48 values of a medium in docs/predicting-errors.csv: rates and P95s of three loads, with measured
# profiles.
ERRORS: Final = {_THROTTLED: (0.04, 0.20), "a disk": (0.10, 0.30), "a RAM disk": (0.82, 1.96)}


def describe_profile(info: PredictionInfo) -> str:
    """Describe what a run was predicted from: profile, kind, source and changes."""
    kind = f"{info.kind}: {info.source}" if info.source else info.kind
    return f"the profile {info.profile} ({kind}){_describe_speeds(info)}"


def identify_profile(info: PredictionInfo) -> str:
    """Return a text that two runs share if they were predicted from equal times."""
    return f"profile {info.profile} {info.profile_sha256[:12]}{_describe_speeds(info)}"


def _describe_speeds(info: PredictionInfo) -> str:
    return "".join(f", {tier} {speed:g} times as fast" for tier, speed in sorted((info.speeds or {}).items()))


def describe_errors(kind: str, conditions: Conditions | None = None) -> str:
    """Say how far predictions were off, for the kinds of tier that a run may have had.

    Args:
        kind: of the profile.
        conditions: of the run; they name a throttle, but not what a drive is. None: unknown.
    """
    if kind != "measured":
        return "No prediction from published figures was compared with a replay."
    errors = ERRORS
    if conditions is not None:
        is_throttled = "nvme" in (conditions.throttle or {})
        errors = {tier: error for tier, error in ERRORS.items() if (tier == _THROTTLED) == is_throttled}
    parts = (
        f"{tier} were off by {median:.0%} (median), nine of ten by at most {most:.0%}"
        for tier, (median, most) in errors.items()
    )
    return f"Predictions for {'; those for '.join(parts)}: docs/predicting.md."


def check_profile(run: Evidence) -> Found:
    """Doubt predictions whose profile measured no device, or measured a cache."""
    infos = (rank.prediction for rank in run.infos)
    if len({None if info is None else identify_profile(info) for info in infos}) > 1:
        text = "its ranks were predicted from unlike profiles, or some of them were measured"
        advice = "replay, or predict, all ranks with one command"
        yield Doubt("ranks", text, advice, invalidates=True)
    info = run.prediction
    if info is None:
        return
    if info.kind != "measured":
        source = f" ({info.source})" if info.source else ""
        basis = "is estimated from what others published"
        if info.kind == "data sheet":
            basis = "follows from a data sheet"
        text = f"the profile {info.profile} {basis}{source}: nothing was measured"
        yield Doubt("data sheet", text, "measure the device with `replayer profile`, or say so next to every figure")
    elif run.conditions.direct is False and run.nvme.read_bytes + run.nvme.written_bytes:
        text = f"the profile {info.profile} was measured through the page cache"
        yield Doubt("page cache", text, "measure a profile with direct I/O: these are times of memory")
