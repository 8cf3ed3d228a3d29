"""The options of commands that may predict replays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from replayer.options.types import Parsed, parse_speeds
from replayer.record.conditions import Tier
from tracegen.console.commands import NAME_OR_FILE, Decorator, option_group
from tracegen.errors import InputError

if TYPE_CHECKING:
    from replayer.experiments.series import ReplayMeans
    from replayer.run.predicted import AssumedSystem


def profile_options(text: str, flag: str = "--profile", *, required: bool = False) -> Decorator:
    """Return a decorator that adds a profile, with this help, and --speed to a command."""
    return option_group(
        "Prediction",
        f"{flag} samsung-990-pro --speed nvme=2",
        click.option(flag, type=NAME_OR_FILE, required=required, metavar="NAME|FILE", help=text),
        click.option(
            "--speed",
            type=Parsed("speeds", parse_speeds),
            default={},
            metavar="TIER=FACTOR,…",
            help="Assume that a tier is faster than its profile by this factor: nvme=2.",
        ),
    )


def prediction_options() -> Decorator:
    """Return a decorator that adds --predict and --speed to a command that makes a series."""
    return profile_options("Predict the replays from this profile instead of making them.", "--predict")


def load_system(name: str | None, speeds: Mapping[Tier, float], setting: str = "profile") -> "AssumedSystem | None":
    """Load the profile that times are predicted from; None: there is none.

    Args:
        name: name or file of the profile, if one is passed.
        speeds: how many times as fast, by tier.
        setting: that names the profile.

    Raises:
        InputError: the profile cannot be read, or there are speeds without a profile.
    """
    from replayer.prediction.profile_file import load_profile
    from replayer.run.predicted import AssumedSystem

    if name is not None:
        system = AssumedSystem(load_profile(name), speeds)
        system.times()  # refuses bad speeds
        return system
    if speeds:
        raise InputError("it changes a profile, and there is none", f"pass `{setting}`, too", setting="speed")
    return None


def choose_means(predict: str | None, speeds: Mapping[Tier, float], **more: Any) -> "ReplayMeans":
    """Return the means by which a series makes its replays, `more` of them as passed.

    Raises:
        InputError: --predict is passed with --trials, as each trial would be the same.
    """
    from replayer.experiments.series import ReplayMeans

    system = load_system(predict, speeds, "predict")
    # Each trial would be the same.
    trials_by = click.get_current_context().get_parameter_source("trials")
    if system is not None and trials_by is not click.core.ParameterSource.DEFAULT:
        raise InputError("a prediction is the same each time", "leave `trials` out", setting="predict")
    return ReplayMeans(profile=predict, system=system, **more)
