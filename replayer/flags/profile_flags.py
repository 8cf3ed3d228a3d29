"""The flags that say from which profile times are predicted."""

from collections.abc import Mapping
from typing import Any, Final

import click

from replayer.prediction.profile_file import shipped_profiles
from replayer.record.columns import TIERS
from replayer.record.run_info import Tier

_SPEED_HINT: Final = "write nvme=2 for twice as fast, or several: nvme=2,cpu=1.5"


class TierSpeeds(click.ParamType[dict[str, float]]):
    """Tiers and how many times as fast they are: TIER=FACTOR[,TIER=FACTOR]."""

    name = "speeds"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> dict[str, float]:
        """Parse the tiers and factors."""
        if isinstance(value, dict):
            return value
        speeds = dict[str, float]()
        for text in str(value).split(","):
            tier, _, factor = text.strip().partition("=")
            try:
                number = float(factor)
            except ValueError:
                self.fail(f"{value!r}: {text!r} is no speed; {_SPEED_HINT}.", param, ctx)
            if tier not in TIERS:
                self.fail(f"{value!r}: {tier!r} is not a tier; {_SPEED_HINT}.", param, ctx)
            if tier in speeds:
                self.fail(f"{value!r} names {tier} twice.", param, ctx)
            speeds[tier] = number
        return speeds


PROFILE_OPTION: Final = click.option(
    "--profile",
    required=True,
    metavar="NAME|FILE",
    help="Whose times to use: a file that `replayer profile` wrote or that describes a data sheet,"
    f" or one of the drives {', '.join(shipped_profiles())}.",
)
SPEED_OPTION: Final = click.option(
    "--speed",
    type=TierSpeeds(),
    default={},
    metavar="TIER=FACTOR,…",
    help="Assume that a tier is faster than its profile by this factor: nvme=2.",
)
PROFILE_OPTIONS: Final = (PROFILE_OPTION, SPEED_OPTION)


def profile_words(name: str, speeds: Mapping[Tier, float]) -> list[str]:
    """Return the words of a command line that name a profile and the speeds of tiers."""
    words = ["--profile", name]
    if speeds:
        texts = (f"{tier}={speed:g}" for tier, speed in speeds.items())
        words += ["--speed", ",".join(texts)]
    return words
