"""Metrics and tables of a log worked by hand."""

from pathlib import Path

import polars as pl

from analysis.log.targets import Targets
from analysis.summary import summary
from analysis.summary.distributions import TABLES
from tests.analysis.metrics.comparing import assert_same, open_log_of
from tests.analysis.metrics.shared_logs import by_hand
from tests.support.logs import write_run

GIB = 2**30
QOS_MS = {"interactive": 1200.0, "responsive": 100.0, "batch": 1000.0}


def test_a_case_worked_by_hand(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", by_hand(), token_ms=100.0)
    held = Targets(qos_ms=QOS_MS, tier_gib_s={"nvme": (1.0, 2.0), "cpu": (4.0, 4.0)}, tbw=1.0, drive_tb=2.0)
    found = summary.summarise(place, targets=held).to_json()
    assert_same(
        found,
        {
            # 10 + 5 + 20 tokens; from 0 to 8 s; 1 + 0.5 + 2 + 1 + 2 s of I/O
            "tokens_generated": 35, "elapsed_s": 8.0, "storage_io_s": 6.5, "wall_clock_tok_s": 35 / 8,
            "storage_tok_s": 35 / 6.5, "mean_inflight": 6.5 / 8, "requests_per_s": 2 / 8,
            # from the first start to the last, at 8 s, when the miss that carries 20 tokens begins and ends
            "steady_s": 8.0, "steady_tok_s": 35 / 8, "steady_decode_read_gib_s": 1 / 8,
            "steady_nvme_read_gib_s": 1 / 8, "steady_nvme_write_gib_s": 1 / 8,
            "decode_read_bytes": GIB, "cpu_decode_read_bytes": GIB, "prefill_write_bytes": 3 * GIB,
            "nvme_tokens_processed": 2000,
            # prefill writes 1000 and 2000 tokens first, finds 1000 and misses 500; session 0 writes alone
            "prompt_tokens": 4500, "compulsory_tokens": 3000,
            "hit_rate_prompt": 1 / 4, "hit_rate_prompt_tokens": 1000 / 4500,
            "hit_rate_sessions": (0 + 1000 / 3500) / 2, "hit_rate_sessions_p5": 0.05 * 1000 / 3500,
            "hit_rate_sessions_p50": 500 / 3500,
            # 1 and 2 GiB stored in cpu, the first of them demoted
            "cpu_left_objects": 1, "cpu_left_bytes": 2 * GIB, "cpu_left_share": 0.5,
            "nvme_left_objects": 1, "nvme_left_bytes": GIB, "nvme_left_share": 0.5, "gpu_left_objects": 0,
            # op 3 of reads 3, 4, as 1 is a decode read; with it and writes 0 and 2 two among five
            "hit_rate": 0.5, "hit_rate_tokens": 2 / 3, "hit_rate_refs": 0.4,
            "hit_rate_requests": 1 / 2, "system_hit_rate": 0.0, "rag_hit_rate": None, "nvme_hit_rate": 1 / 2,
            "logged_ops": 5, "evictions": 1, "recomputed_tokens": 500, "cpu_reads": 2, "nvme_read_bytes": GIB,
            # 0.6 and 1 s
            "cpu_write_mean_ms": 800.0, "cpu_write_p50_ms": 800.0, "cpu_write_p95_ms": 980.0, "cpu_write_max_ms": 1000.0,
            "nvme_write_device_max_ms": 1000.0,
            # 2 GiB in 8 s; in the 2.5 s from 1.5 to 4
            "cpu_read_gib_s": 0.25, "cpu_read_busy_gib_s": 0.8,
            "nvme_read_efficiency": 0.5, "nvme_write_efficiency": 0.25, "cpu_read_efficiency": 0.2,
            "gpu_read_efficiency": None,
            # request 0 waits 0.5 s for a worker; 1 waits for the demotion, due at 1, stored from 4
            "eviction_wait_mean_ms": 1500.0, "eviction_wait_share": 3 / 12, "data_wait_mean_ms": 0.0,
            "data_wait_s": 1.0, "eviction_wait_s": 3.0, "room_wait_s": 0.0, "window_wait_s": 0.0,
            "requests": 2, "io_mean_ms": (1500 + 3000) / 2, "queue_max_ms": 500.0, "plan_wait_max_ms": 3000.0, "lateness_max_ms": 3000.0,
            "ttfb_p50_ms": (1000 + 7000) / 2, "generation_mean_ms": (1000 + 2500) / 2,
            # 2 s + 1 s; the miss at 8 s + 2 s of its tokens − due at 1
            "e2e_mean_ms": (3000 + 9000) / 2,
            # 3000 − 1500 − 500 − 1000; 9000 − 3000 − 3000 − 2500
            "other_mean_ms": (0 + 500) / 2,
            # 1 s of 1.2 s; 7 s of 1 s
            "interactive_requests": 1, "interactive_compliance": 1.0, "batch_requests": 1, "batch_compliance": 0.0,
            "responsive_requests": 0, "responsive_compliance": None,
            # nothing was due from 7 to 8
            "idle_s": 1.0, "plan_wait_s": 4.0, "queue_s": 0.5, "device_s": 3.5, "host_s": 6.1 - 3.5,
            "nvme_device_read_s": 1.0, "nvme_device_write_s": 1.0, "bottleneck": "device",
            # a demotion from 2 to 4 s and a hit from 5 to 7, of 8
            "nvme_busy_share": 0.5,
            "cpu_break_even_tok_s": 2000.0, "nvme_break_even_tok_s": 500.0, "gpu_break_even_tok_s": None,
            # 1 of 4 GiB written goes to nvme, for 3 of stores
            "read_amplification": 1000 / 35, "nvme_write_amplification": 1 / 3,
            "nvme_write_bytes_per_day": GIB * 10_800.0, "drive_writes_per_day": GIB * 10_800 / 2e12,
            "endurance_years": 1e12 / (GIB * 10_800 * 365.25),
        },
    )  # fmt: skip


def test_tables_worked_by_hand(tmp_path: Path) -> None:
    log = open_log_of(write_run(tmp_path / "run", by_hand(), token_ms=100.0))
    lies = TABLES["occupancy_over_time"](log).filter(pl.col("t_s").round(3).is_in([0.0, 1.0, 4.0, 5.0, 8.0]))
    assert lies.filter(tier="cpu")["gib"].to_list() == [0, 1, 0, 2, 2]  # stored at 1 s, demoted at 4, 2 GiB stored at 5
    assert lies.filter(tier="nvme")["gib"].to_list() == [0, 0, 1, 1, 1]
    hits = [("user", "cpu", 1, 1000, 1.0), ("multi_turn", "nvme", 1, 1000, 1.0), ("system", "recomputed", 1, 500, 1.0)]
    assert sorted(TABLES["hits"](log).rows()) == sorted(hits)
