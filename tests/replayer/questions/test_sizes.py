"""Tiers of a wrong size: each case rebuilt as a tiny trace, with the counts that the finding must have."""

from replayer.questions.evidence import name_gib
from tests.replayer.questions.cases import COPIES, found, loop, trace

INCLUSIVE = {"copies": "inclusive", "cpu": COPIES, "nvme": COPIES}


def gains(prompt: int, spared: int, more: int) -> dict[str, int]:
    """The counts of a remedy."""
    return {"prompt_tokens": prompt, "spared_tokens": spared, "more_spared_tokens": more}


def test_a_copy_of_a_tier_no_larger_than_it_adds_nothing() -> None:
    """vLLM's own documents: a CPU tier no larger than the GPU's holds nothing that the GPU lacks."""
    finding = found(trace(loop(20, 3)), INCLUSIVE, gpu=100, cpu=100)["no larger than the faster tier"]
    assert finding.tiers == ("cpu",)
    assert finding.counts == {"usable_bytes": 100, "faster_usable_bytes": 100, "hits": 0} | gains(800, 0, 600)
    assert found(trace(loop(20, 3)), INCLUSIVE, gpu=100, cpu=200) == {}
    assert "no larger than the faster tier" not in found(trace(loop(20, 3)), {}, gpu=100, cpu=100)


def test_a_prefix_larger_than_the_tier_evicts_its_own_beginning() -> None:
    """spark-vllm-docker#373: a prompt of 80 tokens in a tier of 70 never hits."""
    prompt = [f"r{key}" for key in range(8)]
    batch = trace([["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"], prompt, prompt, prompt])
    finding = found(batch, {"lookup": "contiguous"}, cpu=70)["prefix larger than the tier"]
    assert finding.counts == {"prefixes": 3, "larger_prefixes": 3, "largest_prefix": 80} | gains(320, 0, 240)
    assert found(batch, {"lookup": "contiguous"}, cpu=80) == {}


def test_objects_larger_than_the_tier_never_enter_it() -> None:
    finding = found(trace(loop(4, 2), tokens=200), {}, gpu=199, cpu=1000)["objects larger than the tier"]
    assert finding.tiers == ("gpu",)
    assert finding.counts == {"objects": 4, "larger_objects": 4, "largest_object": 200} | gains(2400, 0, 1600)
    assert found(trace(loop(4, 2), tokens=200), {}, cpu=1000) == {}


def test_a_trace_without_reuse_is_not_the_cache_s_fault() -> None:
    requests = [[f"w{key}"] for key in range(40)] + [["r39"]]
    finding = found(trace(requests), {}, cpu=1000)["little reuse"]
    assert finding.counts == {"prompt_tokens": 410, "reused_tokens": 10}
    assert found(trace([*requests, ["r38"], ["r37"]]), {}, cpu=1000) == {}


def test_a_working_set_far_above_all_tiers() -> None:
    finding = found(trace(loop(41, 3)), {}, cpu=100)["working set far above all tiers"]
    assert finding.counts == {"reused_bytes": 410, "usable_bytes": 100} | gains(1640, 0, 1230)
    assert "working set far above all tiers" not in found(trace(loop(40, 3)), {}, cpu=100)


def test_a_loop_larger_than_the_tiers_never_hits_and_its_remedy_is_planned() -> None:
    """Two prefixes of 50 tokens in turn, and room for one and a half: LRU evicts each before its next use.

    Room for the larger prefix, or a little more, gains nothing, so it is not advised.
    """
    prefixes = [[f"w{key}" for key in range(5)], [f"w{key}" for key in range(5, 10)]]
    again = [[f"r{key}" for key in range(5)], [f"r{key}" for key in range(5, 10)]]
    batch = trace(prefixes + again * 4)
    (finding,) = found(batch, {"lookup": "contiguous"}, nvme=75).values()
    assert finding.cause == "loop larger than the tiers"
    assert finding.counts == {"reused_bytes": 100, "usable_bytes": 75} | gains(500, 0, 400)
    assert finding.remedy == f"pass `storage_capacity_gb={name_gib(100)}`: 80.0% of prompt tokens hit instead of 0.0%"
    larger = found(batch, {"lookup": "contiguous"}, nvme=30)
    assert larger["prefix larger than the tier"].counts["more_spared_tokens"] == 400
    assert larger.keys() == {"prefix larger than the tier"}, "one finding gives the tier room"
    assert found(batch, {"lookup": "contiguous"}, nvme=100) == {}


def test_a_drive_that_is_too_small() -> None:
    """Ten objects are read twice in each round, then one is new: it evicts the first, whose return evicts the second …

    The first round hits 20 reads, the five others the second read of each object.
    """
    requests = [[f"w{key}"] for key in range(10)]
    for turn in range(6):
        requests += [[f"r{key}", f"r{key}"] for key in range(10)] + [[f"w{100 + turn}"]]
    finding = found(trace(requests), {}, nvme=100)["tiers too small"]
    assert finding.counts == {"reused_bytes": 100, "usable_bytes": 100} | gains(1360, 700, 500)
    assert "88.2% of prompt tokens hit instead of 51.5%" in finding.remedy
    assert found(trace(requests), {}, nvme=110) == {}, "a new one evicts the new one before"


def test_a_remedy_that_gains_nothing_is_not_printed() -> None:
    """Behind an admission that refuses all, a larger drive changes nothing."""
    rules = {"nvme": {"admit_touches": 9}}
    findings = found(trace(loop(20, 1)), rules, cpu=100, nvme=100)
    assert findings.keys() == {"taken only after several touches"}
    assert "50.0% of prompt tokens hit instead of 0.0%" in findings["taken only after several touches"].remedy


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


def test_nothing_is_asked_for_twice() -> None:
    findings = found(trace([[f"w{key}"] for key in range(50)]), INCLUSIVE, gpu=100, cpu=100)
    assert findings.keys() == {"no reuse"}
    assert findings["no reuse"].counts == {"prompt_tokens": 500, "reused_tokens": 0}
    assert found(trace([[f"w{key}"] for key in range(10)] + [["r9"], ["r8"]]), {}, cpu=100) == {}
