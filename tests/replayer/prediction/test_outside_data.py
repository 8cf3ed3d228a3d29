"""Predictions held against what others published: LMCache's depth table."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.executing import make_settings
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.prediction.profile import Profile
from replayer.prediction.profile_file import load_profile
from replayer.prediction.virtual_engine import VirtualEngine
from tests.replayer.prediction.profile_texts import run_virtually
from tests.support import traces

# GB/s by the size of an object in MiB: LMCache's fs adapter, 8 NVMe drives, 4 workers
PUBLISHED = {1.5: 10.9, 3: 19.1, 6: 30.2, 24: 50.5, 192: 54.5}
FITTED = (1.5, 3)
WORKERS = 4
KEYS, READS = 8, 100
PROFILE = load_profile(Path(__file__).with_name("lmcache.toml"))


def read_gb_s(profile: Profile, mib: float) -> float:
    """Predict the rate at which 4 workers read objects of a size, without the first and last tenth."""
    steps = [("w", key, 1) for key in range(KEYS)] + [("r", key, 1) for _ in range(READS) for key in range(KEYS)]
    options = PlanOptions(TokenBytes(int(mib * 2**20)), (Decimal(0), Decimal(0), None), demand=Demand(Pace(), WORKERS))
    plan = Plan(traces.Held(traces.columns(steps)), options)
    engine = VirtualEngine(plan, make_settings(plan, "off", 1 << 30, PlanWindow(4096, None), Span()), profile.struct())
    ends = np.sort(run_virtually(engine)["end_ns"])[KEYS:]
    middle = ends[len(ends) // 10 : -len(ends) // 10]
    return float((len(middle) - 1) * mib * 2**20 / (middle[-1] - middle[0]))


@pytest.mark.parametrize("mib", PUBLISHED)
def test_depth_table_follows_from_two_cells_and_the_cap(mib: float) -> None:
    found = read_gb_s(PROFILE, mib)
    print(f"{mib:g} MiB: {found:.1f} GB/s, published {PUBLISHED[mib]} ({found / PUBLISHED[mib] - 1:+.1%})")
    assert found == pytest.approx(PUBLISHED[mib], rel=0.01 if mib in FITTED else 0.05)
