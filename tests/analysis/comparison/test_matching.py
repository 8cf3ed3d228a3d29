"""Which runs are compared: validity, copies, conditions, configurations."""

import pytest

from analysis.comparison.matching import match_configurations
from analysis.comparison.trials import load_sets
from tests.analysis.comparison.crafting import Craft, compare, render, three, typed
from tracegen.errors import InputError

GIB = 2**30


def test_invalid_runs_are_left_out_and_named(craft: Craft) -> None:
    bad = craft("a-bad", 9.0, valid=False)
    a, b = three(craft, "a"), three(craft, "b")
    found = compare({"a": [*a, bad], "b": b})
    assert found.pairs[0].ratios["wall_clock_tok_s"].ratio == pytest.approx(1.0)
    assert f"LEFT OUT: {bad}: the run is failed: by design" in typed(*a, bad, "--against", *b).output
    with pytest.raises(InputError, match="no valid run is left"):
        compare({"a": [bad], "b": [craft("b")]})


def test_a_run_named_twice_is_refused(craft: Craft) -> None:
    one = craft("a")
    with pytest.raises(InputError, match="named twice"):
        compare({"a": [one, one], "b": [craft("b")]})
    assert "more than one system" in compare({"a": [one], "b": [one]}).warnings[0]


def test_a_copy_is_neither_a_trial_nor_another_system(craft: Craft) -> None:
    one, copy, other = (craft(name, zero_ns=[zero]) for name, zero in (("a", 5), ("copy", 5), ("b", 6)))
    with pytest.raises(InputError, match=r"copy: a copy of .*/a, so the two are one trial"):
        compare({"a": [one, copy], "b": [other]})
    assert "copy belongs to more than one system" in compare({"a": [one], "b": [copy]}).warnings[0]
    assert compare({"a": [one], "b": [other]}).warnings == []


def test_conditions_that_differ_must_be_varied_by_name(craft: Craft) -> None:
    a, b = three(craft, "a"), three(craft, "b", conditions={"workers": 16})
    with pytest.raises(InputError, match=r"workers 8 \(a\) against 16 \(b\); pass `vary=workers`"):
        compare({"a": a, "b": b})
    found = compare({"a": a, "b": b}, vary=["workers"])
    assert found.pairs[0].varied == ["workers 8 (a) against 16 (b)"]
    assert found.pairs[0].speed == pytest.approx(1.0)
    with pytest.raises(InputError, match="did you mean workers"):
        compare({"a": a, "b": b}, vary=["worker"])


def test_a_system_that_mixes_a_varied_condition_is_refused(craft: Craft) -> None:
    a = [*three(craft, "a"), craft("a-16", conditions={"workers": 16})]
    with pytest.raises(InputError, match="a mixes runs with workers 16 and 8"):
        compare({"a": a, "b": three(craft, "b")}, vary=["workers"])


def test_different_traces_are_refused(craft: Craft) -> None:
    with pytest.raises(InputError, match="no run of its trace; replay one trace on both"):
        compare({"a": [craft("a")], "b": [craft("b", trace="u")]})


def test_the_sizes_of_tiers_are_varied_one_by_one_or_together(craft: Craft) -> None:
    sizes = {"gpu": 0, "cpu": 4 * GIB, "nvme": None}
    a = [craft("a", values={"cpu_read_bytes": 0})]
    b = [craft("b", conditions={"usable_bytes": sizes}, plan="q", ops=1000, values={"cpu_read_bytes": 7})]
    with pytest.raises(InputError, match=r"size of cpu 0 GiB \(a\) against 4 GiB \(b\); pass `vary=usable_bytes.cpu`"):
        compare({"a": a, "b": b})
    for name in ("usable_bytes", "usable_bytes.cpu"):
        found = compare({"a": a, "b": b}, vary=[name])
        assert found.pairs[0].varied == ["size of cpu 0 GiB (a) against 4 GiB (b)"]
        assert "They differ in size of cpu 0 GiB (a) against 4 GiB (b)." in render(found)


def test_configurations_without_a_match_are_named(craft: Craft) -> None:
    a = [craft(f"a-{n}", 2.0 * n, conditions={"users": n}) for n in (1, 2, 3)]
    b = [craft(f"b-{n}", conditions={"users": n}) for n in (1, 2, 9)]
    found = compare({"a": a, "b": b})
    (pair,) = found.pairs
    one = pair.ratios["wall_clock_tok_s"]
    assert one.configurations == 2
    assert one.ratio == pytest.approx(8**0.5)
    assert {name: ratios["wall_clock_tok_s"].ratio for name, ratios in pair.each.items()} == {
        "users 1": pytest.approx(2.0),
        "users 2": pytest.approx(4.0),
    }
    assert pair.varied == []
    assert len(pair.unmatched) == 2
    assert "a-3 (a) matches nothing of b: users 3 (a) against 1 (b)" in pair.unmatched[0]


def test_a_system_on_two_machines_causes_a_warning(craft: Craft) -> None:
    a = [craft(f"a-{host}", machine={"host": host, "storage": {"device": "/dev/sda"}}) for host in ("x", "y")]
    found = compare({"a": a, "b": [craft("b")]})
    assert "WARNING: a mixes machines (x /dev/sda; y /dev/sda)" in render(found)
    assert not compare({"a": a[:1], "b": a[1:]}).warnings


def test_unequal_work_of_one_plan_causes_a_warning(craft: Craft) -> None:
    found = compare(
        {"a": [craft("a", values={"nvme_read_bytes": 1})], "b": [craft("b", values={"nvme_read_bytes": 2})]}
    )
    assert "measured over different work (nvme_read_bytes)" in found.warnings[0]


def test_rules_that_follow_from_an_arrangement_do_not_name_a_configuration(craft: Craft) -> None:
    own = [
        {"arrangement": "vllm", "rules": {"copies": "inclusive"}},
        {"arrangement": "mine", "rules": {"copies": "inclusive", "ttl_s": 60}},
        {"arrangement": "mine", "rules": {"copies": "inclusive", "ttl_s": 90}},
    ]
    runs = [craft(f"r{number}", conditions=one) for number, one in enumerate(own)]
    found, _ = match_configurations(load_sets({"a": runs[:2]})[0])
    assert {one.name for one in found} == {"vllm", "mine"}
    ambiguous, _ = match_configurations(load_sets({"a": runs})[0])
    assert all("rules" in one.name for one in ambiguous), "one name, two tables"
