"""The metric to quote if metrics disagree."""

from analysis.comparison.compare import compare
from tests.analysis.comparison.crafting import CPU, Craft


def test_storage_throughput_hides_a_faster_system_without_a_cpu_tier(craft: Craft) -> None:
    """A system 4.7 times as fast shows 1.12, 2.62 and 2.43 times in the three metrics."""
    noise = (0.85, 1.0, 1.15)
    for name, gains in (("fast", (1.12, 2.62, 2.43)), ("slow", (1, 1, 1))):
        for i, n in enumerate(noise):
            storage, decode, wall = gains
            values = {
                "storage_tok_s": 50 * storage * n,
                "decode_read_gib_s": 2 * decode * n,
                "wall_clock_tok_s": 100 * wall * n,
            }
            craft(f"{name}-{i}", values=values)
    place = craft("other").parent
    found = compare({name: [place / f"{name}-{i}" for i in range(3)] for name in ("fast", "slow")})
    ratios = found.pairs[0].ratios
    assert ratios["storage_tok_s"].verdict == "not apart"
    assert ratios["decode_read_gib_s"].winner == ratios["wall_clock_tok_s"].winner == "fast"
    assert found.advice is not None
    assert found.advice.metrics == ("decode_read_gib_s", "wall_clock_tok_s")
    assert found.advice.notes == [
        "decode_read_gib_s tells fast and slow apart, 2.62x; wall_clock_tok_s tells fast and slow apart, 2.43x.",
        "storage_tok_s does not tell them apart, 1.12x while decode_read_gib_s shows 2.62x.",
    ]


def test_with_a_cpu_tier_storage_throughput_is_checked_against_the_others(craft: Craft) -> None:
    fast = {"storage_tok_s": 75.0, "wall_clock_tok_s": 100.0, "decode_read_gib_s": 2.0}
    a = [craft(f"a-{i}", conditions=CPU, values=fast) for i in (1, 2)]
    b = [craft(f"b-{i}", 1 + i / 10, conditions=CPU) for i in (-1, 1)]
    advice = compare({"a": a, "b": b}).advice
    assert advice is not None
    assert advice.metrics == ("storage_tok_s",)
    assert advice.notes[0] == "storage_tok_s tells a and b apart, 1.50x."
    assert advice.notes[1] == "decode_read_gib_s does not tell them apart, 1.00x while storage_tok_s shows 1.50x."
    a = [
        craft(f"c-{i}", conditions=CPU, values=fast | {"storage_tok_s": 50.0, "wall_clock_tok_s": 200.0})
        for i in (1, 2)
    ]
    advice = compare({"a": a, "b": b}).advice
    assert advice is not None
    assert advice.notes == [
        "storage_tok_s does not tell a and b apart, 1.00x.",
        "wall_clock_tok_s separates them better here, 2.00x while storage_tok_s shows 1.00x: quote it as well.",
    ]


def test_metrics_that_contradict_each_other_are_named(craft: Craft) -> None:
    a = [
        craft(f"a-{i}", values={"storage_tok_s": 25.0, "wall_clock_tok_s": 300.0, "decode_read_gib_s": 6.0})
        for i in "12"
    ]
    advice = compare({"a": a, "b": [craft(f"b-{i}") for i in "12"]}).advice
    assert advice is not None
    assert advice.notes[1].startswith("storage_tok_s says the opposite, 0.50x while decode_read_gib_s shows 3.00x")


def test_the_metric_to_quote_is_one_that_the_runs_have(craft: Craft) -> None:
    values = {"decode_read_gib_s": 0.0}
    found = compare({s: [craft(s, values=values)] for s in "ab"})
    assert found.advice is not None
    assert found.advice.metrics == ("wall_clock_tok_s",)
    values = {"storage_tok_s": 0.0}
    found = compare({s: [craft(f"cpu-{s}", values=values, conditions=CPU)] for s in "ab"})
    assert found.advice is not None
    assert found.advice.metrics == ("decode_read_gib_s",)
