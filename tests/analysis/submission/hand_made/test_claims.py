"""The numbers that a package claims, from those of its ranks."""

import json
from statistics import fmean

import pytest

from tests.support.submissions import Open

pytestmark = pytest.mark.usefixtures("tiny")


def test_claims_are_sums_over_ranks_and_means_over_trials(fresh: Open) -> None:
    """Each read takes 50 MiB / (1 GiB/s) × 0.9 in the device, × 1, 1.25 by rank, + 0.5 in the second trial."""
    package = fresh("ranks")
    option = json.loads((package.runs[0] / "summary.json").read_text())["options"]["option_1"]
    assert (option["rank_count"], option["trial_count"]) == (2, 2)
    trials = [trial["ranks"] for trial in option["trials"]]
    for name in ("nvme_read_gib_s", "nvme_write_gib_s", "wall_clock_tok_s"):
        sums = [sum(rank[name] for rank in ranks) for ranks in trials]
        assert [trial[name] for trial in option["trials"]] == pytest.approx(sums)
        assert option[name] == pytest.approx(fmean(sums))
    assert option["aggregated_read_bandwidth_gbps"] == pytest.approx(option["nvme_read_gib_s"] * 1.073741824)
    assert option["aggregated_avg_throughput_tokens_per_sec"] == option["wall_clock_tok_s"]
    slowest = 50 / 1024 * 1000 * 0.9 * (1 + 0.25 + 0.5)
    for name in ("aggregated_device_read_p95_ms", "aggregated_device_write_p95_ms", "nvme_read_device_p95_ms"):
        assert option[name] == pytest.approx(slowest, rel=1e-6)
