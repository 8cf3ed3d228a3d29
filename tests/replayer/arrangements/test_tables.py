"""Tables of rules: what they may contain, and what becomes of them in run.json and in compiled code."""

import json
import re
import tomllib
from dataclasses import fields, replace
from typing import Any, get_args

import pytest

from replayer.arrangements.arrangement import SPILLOVER, WATERFALL, Arrangement, SchedulerRules, Source, TierRules
from replayer.arrangements.loading import load_arrangement, make_arrangement, parse_arrangement, shipped_names
from replayer.arrangements.rules import make_rules
from replayer.bindings.compiled import UNLIMITED
from replayer.record.options import POLICIES
from tests.support.paths import ROOT
from tests.support.policies import KINDS
from tracegen.errors import InputError
from tracegen.schema import ENUMS

INCLUSIVE = 'copies = "inclusive"\n'
WRONG = {
    'copies = "two"': "copies is 'two'; write exclusive or inclusive.",
    "ttl_s = -1": "ttl_s is -1; write a number from 0 to 1,000,000,000.",
    "ttl_s = 0.0000001": "ttl_s is 1e-07; write at most six decimals.",
    'pin = ["ads"]': "pin[0] is 'ads'; write common, multi_turn, rag, system or user.",
    "chunk_tokens = -1": "chunk_tokens is -1; write a whole number from 0 below 2,147,483,648.",
    "[nvme]\ntouches = 0": "nvme.touches is 0; write a whole number from 1 to 127.",
    '[gpu]\npolicy = "mru"': "gpu.policy is 'mru'; write arc, belady, ",
    "[cpu]\nhigh = 0": "cpu.high is 0; write a number above 0 to 1.",
    "[cpu]\nhigh = 0.1234567": "cpu: high is 0.123457; write at most six decimals.",
    "[cpu]\nhigh = 0.9": "cpu: low is 1, above high, 0.9; set low to 0.9 or less.",
    "[cpu]\nevict_share = 0.2": "cpu: evict_share is 0.2, and high is 1",
    '[cpu]\ndown = "on-store"': "cpu.down leaves a copy",
    '[cpu]\nup = "copy"': "cpu.up leaves a copy",
    INCLUSIVE + '[cpu]\nup = "move"': "cpu.up is move, and several tiers may hold an object",
    "[cpu]\ntouch = 2": "cpu.touch is unknown; did you mean cpu.touches?",
    "chunks = 2": "chunks is unknown; did you mean chunk_tokens?",
    '[source]\nengine = "x"': "source.version is missing",
    '[source]\nengine = "x"\nversion = "1"\ncommit = ""\ndate = "2026-01-01"': "source.commit is ''",
    '[source]\nengine = "x"\nversion = "1"\ncommit = "1"\ndate = "today"': "source.date is 'today'",
    "copies": "is not TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_table_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_arrangement("mine.toml", text)
    assert refused.value.setting == "arrangement"
    assert str(refused.value).startswith(f"arrangement mine.toml: {WRONG[text]}")
    assert refused.value.remedy


def read_table_of_the_page(name: str = "arrangements.md") -> dict[str, Any]:
    page = (ROOT / "docs" / name).read_text()
    match = re.search(r"```toml\n(.*?)```", page, re.S)
    assert match
    return tomllib.loads(match[1])


def test_the_page_has_every_key_with_its_default() -> None:
    table = read_table_of_the_page()
    tier = table.pop("gpu")
    assert make_arrangement("page", table) == Arrangement("page")
    assert set(table) == {one.name for one in fields(Arrangement)} - {
        *("name", "description", "source", "gpu", "cpu", "nvme", "scheduler"),
    }
    assert make_arrangement("page", {"gpu": tier}) == Arrangement("page")
    assert set(tier) == {one.name for one in fields(TierRules)}
    serving = make_arrangement("page", read_table_of_the_page("serving.md")).scheduler
    assert serving == SchedulerRules() == load_arrangement("vllm").scheduler


@pytest.mark.parametrize("name", shipped_names())
def test_a_table_survives_json(name: str) -> None:
    arrangement = load_arrangement(name)
    table = json.loads(json.dumps(arrangement.to_table()))
    again = make_arrangement(name, table)
    assert replace(again, description=arrangement.description, source=arrangement.source) == arrangement
    assert json.dumps(again.to_table()) == json.dumps(arrangement.to_table())


def test_whole_numbers_and_floats_are_recorded_alike() -> None:
    whole, decimal = (parse_arrangement("a", f"ttl_s = {ttl}\npin = {pin}") for ttl, pin in (
        ("60", '["rag", "user", "rag"]'), ("60.0", '["user", "rag"]'),
    ))  # fmt: skip
    assert json.dumps(whole.to_table()) == json.dumps(decimal.to_table())
    assert whole.to_table() == {"ttl_s": 60.0, "pin": ["user", "rag"]}


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("", ("waterfall", None, False)),
        ('copies = "exclusive"\nlookup = "contiguous"', ("waterfall", None, False)),
        ('[cpu]\nup = "move"\n[nvme]\nup = "move"', ("waterfall", None, True)),
        ('place = "with-room"', ("spillover", None, False)),
        ('tail = "keep"\n[cpu]\ntouches = 5\nadmit_table = 9', ("waterfall", None, False)),
        ('[nvme]\nup = "move"', ("mine", {"nvme": {"up": "move"}}, False)),
        ('[cpu]\npolicy = "fifo"', ("mine", {"cpu": {"policy": "fifo"}}, False)),
        ("chunk_tokens = 64", ("mine", {"chunk_tokens": 64}, False)),
    ],
)
def test_equal_rules_are_recorded_under_one_name(text: str, recorded: tuple[str, Any, bool]) -> None:
    record = parse_arrangement("mine", text).to_record()
    assert (record.name, record.rules, record.promote) == recorded


def test_promotion_is_a_rule_of_every_tier() -> None:
    for known in (WATERFALL, SPILLOVER):
        assert {rules.up for rules in known.with_promotion().tiers().values()} == {"move"}
        record = known.with_promotion().to_record()
        assert (record.name, record.rules, record.promote) == (known.name, None, True)


def rules_of(arrangement: Arrangement, usable: Any = (100, 1001, None), token_bytes: int = 7) -> Any:
    capacity = tuple(None if size is None else 2 * size for size in usable)
    return make_rules(arrangement, usable, capacity, token_bytes, is_contiguous=True, first_writes=False)


def test_shares_are_exact_decimals() -> None:
    """0.3 x 1001 = 300.3; 0.29 x 100 = 29, and 28.999… in binary; 0.8 x (1001 - 100) / 7 = 102.97…"""
    tier = TierRules(high=0.3, low=0.29, evict_share=0.000001, user_quota=0.29, fetch_share=0.8)
    rules = rules_of(replace(WATERFALL, gpu=tier, cpu=tier, nvme=tier))
    gpu, cpu, nvme = rules.tier
    assert (gpu.high, gpu.low, gpu.user_quota, gpu.evict_ppm) == (30, 29, 29, 1)
    assert (cpu.high, cpu.low, cpu.user_quota) == (300, 290, 290)
    assert (nvme.high, nvme.low, nvme.user_quota) == (UNLIMITED,) * 3
    assert [one.fetch_in_flight for one in rules.tier] == [102] * 3


def test_the_smaller_limit_of_fetches_holds() -> None:
    both = replace(WATERFALL, cpu=TierRules(fetch_in_flight=50, fetch_share=0.8))
    assert rules_of(both).tier[1].fetch_in_flight == 50
    assert rules_of(both, (900, 901, 0)).tier[1].fetch_in_flight == 0
    assert rules_of(both, (900, 90, 0)).tier[1].fetch_in_flight == 0, "cpu is smaller than gpu"


def test_codes_are_those_of_the_compiled_core() -> None:
    assert tuple(KINDS) == POLICIES
    words = replace(WATERFALL, copies="inclusive", touch="all", recency="tail-first", ttl_s=0.5, pin=("user", "system"))
    rules = rules_of(words.with_tiers(down="on-touch", up="copy-top", policy="belady", touches=3))
    assert (rules.inclusive, rules.touch_all, rules.tail_first) == (1, 1, 1)
    assert (rules.ttl_ns, rules.pinned) == (500_000_000, 0b101)
    assert {(one.down, one.up, one.policy, one.touches) for one in rules.tier} == {(2, 3, 11, 3)}


def test_sources_are_those_of_traces() -> None:
    assert get_args(Source) == ENUMS["source"]
