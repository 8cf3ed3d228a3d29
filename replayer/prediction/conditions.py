"""The conditions of predicted replays: those of their profile, or those assumed for a data sheet."""

from typing import Final

from replayer.profiles.profile import Profile, ProfileConditions

_OF_DATA_SHEETS: Final = ProfileConditions(
    layout="files",
    direct=True,
    io_bytes=1 << 20,
    io_depth=1,
    io_engine="psync",
    fsync="none",
    verify="stamps",
)


def find_conditions(profile: Profile) -> ProfileConditions:
    """Return the conditions under which the times of a profile hold."""
    return profile.conditions or _OF_DATA_SHEETS
