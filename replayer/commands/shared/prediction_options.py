"""The options of commands that may predict replays."""

from collections.abc import Callable, Mapping
from typing import Any

from replayer.experiments.prediction import Predictor
from replayer.flags.profile_flags import SPEED_OPTION
from replayer.prediction.profile_file import load_profile
from replayer.record.run_info import Tier
from replayer.run.predicted import AssumedSystem
from tracegen.errors import InputError


def add_speed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --speed to a command."""
    return SPEED_OPTION(command)


def load_predictor(
    name: str | None,
    speeds: Mapping[Tier, float],
    setting: str,
) -> Predictor | None:
    """Load the profile that replays are predicted from; None: they are not predicted.

    Args:
        name: name or file of the profile, if one is passed.
        speeds: how many times as fast, by tier.
        setting: that names the profile.

    Raises:
        InputError: the profile cannot be read, or there are speeds without a profile.
    """
    if name is not None:
        return Predictor.load(name, speeds)
    _refuse_speeds(speeds, setting)
    return None


def load_system(name: str | None, speeds: Mapping[Tier, float]) -> AssumedSystem | None:
    """Load the profile that times are predicted from in this process; None: there is none.

    Args:
        name: name or file of the profile, if one is passed.
        speeds: how many times as fast, by tier.

    Raises:
        InputError: the profile cannot be read, or there are speeds without a profile.
    """
    if name is not None:
        system = AssumedSystem(load_profile(name), speeds)
        system.times()  # refuses bad speeds
        return system
    _refuse_speeds(speeds, "profile")
    return None


def _refuse_speeds(speeds: Mapping[Tier, float], setting: str) -> None:
    """Refuse speeds if there is no profile that they change."""
    if speeds:
        problem = "it changes a profile, and there is none"
        raise InputError(problem, f"pass `{setting}`, too", setting="speed")
