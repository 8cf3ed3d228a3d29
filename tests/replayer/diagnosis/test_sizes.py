"""Tiers of a wrong size: each case rebuilt as a tiny trace, with the counts that the finding must have."""

from tests.replayer.diagnosis.cases import COPIES, found, loop, trace

INCLUSIVE = {"copies": "inclusive", "cpu": COPIES, "nvme": COPIES}


def test_a_copy_of_a_tier_no_larger_than_it_adds_nothing() -> None:
    """vLLM's own documents: a CPU tier no larger than the GPU's holds nothing that the GPU lacks."""
    finding = found(trace(loop(20, 3)), INCLUSIVE, gpu=100, cpu=100)["no larger than the faster tier"]
    assert finding.tiers == ("cpu",)
    assert finding.counts == {"usable_bytes": 100, "faster_usable_bytes": 100, "hits": 0}
    assert found(trace(loop(20, 3)), INCLUSIVE, gpu=100, cpu=200) == {}
    assert "no larger than the faster tier" not in found(trace(loop(20, 3)), {}, gpu=100, cpu=100)


def test_a_prefix_larger_than_the_tier_evicts_its_own_beginning() -> None:
    """spark-vllm-docker#373: a prompt of 80 tokens in a tier of 70 never hits."""
    prompt = [f"r{key}" for key in range(8)]
    batch = trace([["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"], prompt, prompt, prompt])
    finding = found(batch, {"lookup": "contiguous"}, cpu=70)["prefix larger than the tier"]
    assert finding.counts == {"prefixes": 3, "larger_prefixes": 3, "largest_bytes": 80}
    assert found(batch, {"lookup": "contiguous"}, cpu=80) == {}


def test_objects_larger_than_the_tier_never_enter_it() -> None:
    finding = found(trace(loop(4, 2), tokens=200), {}, gpu=199, cpu=1000)["objects larger than the tier"]
    assert finding.tiers == ("gpu",)
    assert finding.counts == {"objects": 4, "larger_objects": 4, "largest_bytes": 200}
    assert found(trace(loop(4, 2), tokens=200), {}, cpu=1000) == {}


def test_a_trace_without_reuse_is_not_the_cache_s_fault() -> None:
    requests = [[f"w{key}"] for key in range(40)] + [["r39"]]
    finding = found(trace(requests), {}, cpu=1000)["little reuse"]
    assert finding.counts == {"prompt_tokens": 410, "reused_tokens": 10}
    assert found(trace([*requests, ["r38"], ["r37"]]), {}, cpu=1000) == {}


def test_a_working_set_far_above_all_tiers() -> None:
    finding = found(trace(loop(41, 3)), {}, cpu=100)["working set far above all tiers"]
    assert finding.counts == {"reused_bytes": 410, "usable_bytes": 100, "spared_tokens": 0}
    assert "working set far above all tiers" not in found(trace(loop(40, 3)), {}, cpu=100)


def test_a_tier_written_but_never_read() -> None:
    """vLLM#56871: hundreds of GB are written to a tier, and all reads hit before it."""
    requests = [[op] for key in range(50) for op in (f"w{key}", f"r{key}")]
    finding = found(trace(requests), INCLUSIVE, cpu=100, nvme=1000)["written but never read"]
    assert finding.tiers == ("nvme",)
    assert finding.counts == {"entries": 50, "hits": 0, "write_bytes": 500}
    assert found(trace([*requests, ["r0"]]), INCLUSIVE, cpu=100, nvme=1000) == {}


def test_a_tier_behind_one_that_holds_all() -> None:
    copied = found(trace(loop(5, 3)), INCLUSIVE, cpu=100, nvme=1000)["the faster tier holds all"]
    assert (copied.tiers, copied.counts["entries"]) == (("nvme",), 5)
    empty = found(trace(loop(5, 3)), {}, cpu=100, nvme=1000)["the faster tier holds all"]
    assert empty.counts == {"entries": 0, "faster_peak_bytes": 50}
    assert found(trace(loop(5, 3)), {}, cpu=100, nvme=None) == {}, "unlimited nvme is the default"


def test_a_trace_without_reads_has_no_findings() -> None:
    assert found(trace([[f"w{key}"] for key in range(50)]), INCLUSIVE, gpu=100, cpu=100) == {}
