"""Arrangements by the words of older tests: a name, and whether reads promote."""

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.loading import load_arrangement


def arranged(name: str = "waterfall", promote: bool = False) -> Arrangement:
    """A shipped arrangement, in which reads move objects up if `promote`."""
    arrangement = load_arrangement(name)
    return arrangement.with_promotion() if promote else arrangement
