"""Systems with different tiers: conditions that follow from them, equal ratios, metrics to quote."""

from typing import Any

import pytest

from analysis.comparison.matching import match_configurations
from analysis.comparison.trials import load_sets
from tests.analysis.comparison.crafting import Craft, compare
from tracegen.errors import InputError

GIB = 2**30


def sizes(cpu_gib: float = 0, nvme: int | None = None) -> dict[str, Any]:
    """Return conditions with these tiers; the headroom is taken off the cpu tier."""
    usable = {"gpu": 0, "cpu": int(cpu_gib * GIB * 0.8), "nvme": nvme}
    return {"usable_bytes": usable, "headroom": "0.8"}


def machine(device: str | None) -> dict[str, Any]:
    return {"host": "vm", "cpu": "EPYC", "cores": 2, "storage": {"device": device}}


def test_runs_with_and_without_an_nvme_tier_vary_only_its_size(craft: Craft) -> None:
    """The conditions of the nvme tier follow from its size, and a run without it names no device."""
    memory = craft("a", conditions=sizes(4, nvme=0) | {"direct": None, "io_engine": None}, machine=machine(None))
    nvme = craft("b", conditions=sizes(4) | {"direct": True, "io_engine": "psync"}, machine=machine("/dev/vda"))
    with pytest.raises(InputError, match=r"pass `vary=usable_bytes.nvme` if"):
        compare({"memory": [memory], "nvme": [nvme]})
    found = compare({"memory": [memory], "nvme": [nvme]}, vary=["usable_bytes.nvme"])
    assert not found.warnings
    assert [text.split(" against ")[0] for text in found.pairs[0].varied] == ["size of nvme 0 GiB (memory)"]
    assert not compare({"memory": [memory], "nvme": [nvme]}, vary=["usable_bytes"]).warnings


def test_runs_with_and_without_an_nvme_tier_may_share_a_machine(craft: Craft) -> None:
    systems = {}
    for system, device in (("old", "/dev/sda"), ("new", "/dev/sdb")):
        memory = sizes(4, nvme=0) | {"direct": None, "io_engine": None}
        systems[system] = [
            craft(f"{system}-m", conditions=memory, machine=machine(None)),
            craft(f"{system}-n", conditions=sizes(4) | {"io_engine": "psync"}, machine=machine(device)),
        ]
    assert not compare(systems).warnings


def test_the_conditions_of_a_tier_must_be_equal_in_runs_that_have_it(craft: Craft) -> None:
    a = craft("a", conditions=sizes(nvme=GIB) | {"direct": True})
    b = craft("b", conditions=sizes(nvme=2 * GIB) | {"direct": False})
    with pytest.raises(InputError, match="these runs have direct false and true; pass `vary=direct`"):
        compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme"])
    found = compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme", "direct"])
    assert len(found.pairs[0].measured) == 1


def test_configurations_are_named_by_the_requested_size(craft: Craft) -> None:
    found, _ = match_configurations(
        load_sets({"a": [craft(f"a-{gib}", conditions=sizes(gib)) for gib in (0.25, 4)]})[0]
    )
    assert [one.name for one in found] == ["cpu 0.25 GiB", "cpu 4 GiB"]
