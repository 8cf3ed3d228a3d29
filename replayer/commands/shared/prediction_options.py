"""The options of commands that may predict replays."""

from collections.abc import Callable, Mapping
from typing import Any

from replayer.experiments.prediction import Predictor
from replayer.flags.profile_flags import SPEED_OPTION
from replayer.record.run_info import Tier
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
    if speeds:
        problem = "it changes a profile, and there is none"
        raise InputError(problem, f"pass `{setting}`, too", setting="speed")
    return None
