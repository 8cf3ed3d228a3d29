"""Predicted runs made by hand: crafted runs with the mark of a prediction."""

from typing import Any, Final

import msgspec

from replayer.schema import PREDICTED_RUN_VERSION, PredictionInfo
from tests.support.crafted_runs import Crafted

PROFILE: Final[dict[str, Any]] = {"profile": "drive", "kind": "measured", "profile_sha256": "ab" * 32}
SHEET: Final = {"profile": "acme-1", "kind": "data sheet", "source": "acme.example, 2026-11-01"}


def predict(**changes: Any) -> PredictionInfo:
    """Return what a summary says of a prediction; `changes` are of PROFILE."""
    return msgspec.convert(PROFILE | changes, PredictionInfo)


def mark(run: Crafted, **changes: Any) -> Crafted:
    """Mark a crafted run as predicted: it has neither counters nor a payload."""
    run.samples = None
    run.info |= {
        "run_version": PREDICTED_RUN_VERSION,
        "payload_nonce": None,
        "prediction": PROFILE | changes,
    }
    return run


def measured(run: Crafted, started: int = 0) -> Crafted:
    """Let a crafted run be of the present format, and start so many ns after others."""
    run.info |= {
        "run_version": 2,
        "clock": {"offset_ns": 0, "round_trip_ns": 0, "zero_ns": 10**18 + started},
    }
    unset = ("order", "placement", "ops", "drain_s", "io_engine")
    run.info["conditions"] = dict.fromkeys(unset) | run.info["conditions"]
    return run
