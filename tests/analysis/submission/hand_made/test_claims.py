"""The numbers that a package claims, worked by hand."""

import json

import polars as pl
import pytest

from analysis.submission.package_tree import list_ranks
from tests.support.crafted_runs import SIZE, frame
from tests.support.submissions import DURATION_S, Open, trial_of

pytestmark = pytest.mark.usefixtures("tiny")


def test_claims_are_sums_over_ranks_and_means_over_trials(fresh: Open) -> None:
    """Each read takes 50 MiB / (1 GiB/s) × 0.9 in the device, × 1, 1.25 by rank, + 0.5 in the second trial."""
    package = fresh("ranks")
    option = json.loads((package.runs[0] / "summary.json").read_text())["options"]["option_1"]
    rates: dict[str, list[list[float]]] = {"read": [], "write": [], "tokens": []}
    for trial in (1, 2):
        logs = [frame(place) for place in list_ranks(trial_of(package, f"option_1/trial_{trial}"))]
        spans = [DURATION_S - log["start_ns"].min() / 1e9 for log in logs]  # type: ignore[operator]
        moved = [
            [(log["move"].cast(pl.String) == move).sum() * SIZE / 2**30 for log in logs] for move in ("hit", "store")
        ]
        tokens = [log["new_tokens"].sum() for log in logs]
        for name, sizes in zip(rates, (*moved, tokens), strict=True):
            rates[name].append([size / span for size, span in zip(sizes, spans, strict=True)])
    wanted = {name: (sum(first) + sum(second)) / 2 for name, (first, second) in rates.items()}
    assert option["nvme_read_gib_s"] == pytest.approx(wanted["read"])
    assert option["aggregated_read_bandwidth_gbps"] == pytest.approx(wanted["read"] * 1.073741824)
    assert option["aggregated_write_bandwidth_gbps"] == pytest.approx(wanted["write"] * 1.073741824)
    assert option["aggregated_avg_throughput_tokens_per_sec"] == pytest.approx(wanted["tokens"])
    slowest = 50 / 1024 * 1000 * 0.9 * (1 + 0.25 + 0.5)
    for name in ("aggregated_device_read_p95_ms", "aggregated_device_write_p95_ms", "nvme_read_device_p95_ms"):
        assert option[name] == pytest.approx(slowest, rel=1e-6)
    assert [trial["nvme_read_gib_s"] for trial in option["trials"]] == pytest.approx([*map(sum, rates["read"])])
    assert [one["nvme_read_gib_s"] for one in option["trials"][1]["ranks"]] == pytest.approx(rates["read"][1])
    assert (option["rank_count"], option["trial_count"]) == (2, 2)
