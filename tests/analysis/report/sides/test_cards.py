"""Large figures of two systems."""

from analysis.report.sides.cards import make_side_cards
from tests.analysis.comparison.crafting import Craft, three
from tests.analysis.report.sides.comparing import sides_of


def test_cards_show_ratios_with_the_values_of_both(craft: Craft) -> None:
    same = {"hit_rate_prompt_tokens": 0.736, "nvme_read_gib_s": None}
    systems = {
        "old": three(craft, "old", (1.0, 1.0), values=same),
        "new": three(craft, "new", (1.4, 1.4), values=same),
    }
    cards = {card.label: card for card in make_side_cards(sides_of(systems))}
    rate = cards["Throughput"]
    assert (rate.value, rate.range) == ("1.40 ×", "95% interval 1.40 to 1.40, 2 + 2 trials")
    assert rate.hint == "100 → 140 tok/s; new is better"
    assert cards["Reads from NVMe"].value is None
    hits = cards["Hit rate of prompt tokens"]
    assert (hits.value, hits.range) == ("73.6%", "the same on both")


def test_more_than_two_systems_have_no_cards_of_ratios(craft: Craft) -> None:
    systems = {name: [craft(name)] for name in ("a1", "b1", "c1")}
    assert make_side_cards(sides_of(systems)) == []
    alone = make_side_cards(sides_of({"a1": systems["a1"], "b1": systems["b1"]}))
    assert alone[0].range == "no interval: one trial each"
