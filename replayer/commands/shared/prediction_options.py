"""The options of commands that may predict replays."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from replayer.flags.plan_flags import add_options
from replayer.flags.profile_flags import SPEED_OPTION
from replayer.prediction.profile_file import load_profile
from replayer.record.run_info import Tier
from replayer.run.predicted import AssumedSystem
from tracegen.errors import InputError


def add_speed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --speed to a command."""
    return SPEED_OPTION(command)


def add_prediction(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --predict and --speed to a command that makes a series."""
    predict = click.option(
        "--predict",
        metavar="NAME|FILE",
        help="Predict the replays from this profile instead of making them.",
    )
    return add_options((predict, SPEED_OPTION), command)


def load_system(
    name: str | None,
    speeds: Mapping[Tier, float],
    setting: str = "profile",
) -> AssumedSystem | None:
    """Load the profile that times are predicted from; None: there is none.

    Args:
        name: name or file of the profile, if one is passed.
        speeds: how many times as fast, by tier.
        setting: that names the profile.

    Raises:
        InputError: the profile cannot be read, or there are speeds without a profile.
    """
    if name is not None:
        system = AssumedSystem(load_profile(name), speeds)
        system.times()  # refuses bad speeds
        return system
    if speeds:
        problem = "it changes a profile, and there is none"
        raise InputError(problem, f"pass `{setting}`, too", setting="speed")
    return None


def refuse_trials() -> None:
    """Refuse --trials next to --predict: each trial would be the same."""
    source = click.get_current_context().get_parameter_source("trials")
    if source is click.core.ParameterSource.COMMANDLINE:
        problem = "a prediction is the same each time"
        raise InputError(problem, "leave `trials` out", setting="predict")
