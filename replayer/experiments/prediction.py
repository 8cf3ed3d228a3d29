"""Replays of a series that are predicted from a profile instead of made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from replayer.flags.forwarded_flags import setting_of_flag
from replayer.flags.profile_flags import profile_words
from replayer.flags.run_flags import LoadFlags
from replayer.planning.plan_settings import PlanSettings
from replayer.prediction.profile import Profile
from replayer.prediction.profile_file import load_profile
from replayer.record.options import ProfileKind
from replayer.record.run_info import Tier
from tracegen.errors import InputError

_SHARED: Final = frozenset((*PlanSettings.__annotations__, *LoadFlags.__dataclass_fields__))
"""Settings that `replayer predict` takes as `replayer run` does."""


class PredictorRow(TypedDict):
    """The profile of predictions, as the files of a series hold it."""

    profile: str
    kind: ProfileKind
    profile_sha256: str
    speeds: dict[Tier, float]


@dataclass(frozen=True)
class Predictor:
    """The profile that the replays of a series are predicted from.

    Attributes:
        name: name or file of the profile.
        profile: what it holds.
        speeds: how many times as fast, by tier.
    """

    name: str
    profile: Profile
    speeds: Mapping[Tier, float]

    @classmethod
    def load(cls, name: str, speeds: Mapping[Tier, float]) -> "Predictor":
        """Load a profile.

        Raises:
            InputError: it cannot be read, or it lacks a tier that has a speed.
        """
        profile = load_profile(name)
        profile.with_speed(speeds)
        return cls(name, profile, speeds)

    def flags(self) -> list[str]:
        """Return the flags of `replayer predict` for it."""
        return profile_words(self.name, self.speeds)

    def row(self) -> PredictorRow:
        """Return what the files of a series hold of it."""
        return {
            "profile": self.profile.name,
            "kind": self.profile.kind,
            "profile_sha256": self.profile.digest,
            "speeds": dict(self.speeds),
        }

    def describe(self) -> str:
        """Describe it in a few words."""
        speeds = ", ".join(f"{tier} × {speed:g}" for tier, speed in self.speeds.items())
        kinds = {"measured": "", "data sheet": "a data sheet, ", "estimated": "an estimate, "}
        kind = kinds[self.profile.kind]
        faster = f", {speeds}" if speeds else ""
        return f"predicted from {kind}the profile {self.profile.name}{faster}"


def check_shared_flags(words: Sequence[str]) -> None:
    """Refuse flags of `replayer run` whose values are those of the profile in a prediction.

    Raises:
        InputError: says which.
    """
    for word in words:
        setting = setting_of_flag(word)
        if setting is not None and setting not in _SHARED:
            problem = "predictions are made under the conditions of their profile"
            raise InputError(problem, "leave it out", setting=setting)
