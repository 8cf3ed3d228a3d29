"""Systems with different tiers: conditions that follow from them, equal ratios, metrics to quote."""

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.comparison.crafting import compare
from tests.analysis.comparison.crafting import render
from tests.analysis.comparison.crafting import Craft
from tests.support import traces
from tests.support.command_line import Run
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
    assert set(found.varied) == {"usable_bytes.nvme"}
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
    with pytest.raises(InputError, match="these runs have direct true and false; pass `vary=direct`"):
        compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme"])
    found = compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme", "direct"])
    assert len(found.configurations) == 1


def over_elapsed(craft: Craft, name: str, seconds: tuple[float, ...], gib: float = 64.0) -> list[Path]:
    """Make trials that did equal work in these times."""
    return [
        craft(
            f"{name}-{trial}",
            values={
                "elapsed_s": s,
                "wall_clock_tok_s": 1000 / s,
                "decode_read_gib_s": 7 / s,
                "nvme_read_gib_s": gib / s,
                "storage_tok_s": 30 / s,
            },
        )
        for trial, s in enumerate(seconds)
    ]


def test_equal_ratios_are_shown_once(craft: Craft) -> None:
    systems = {"new": over_elapsed(craft, "new", (2.0, 2.2)), "old": over_elapsed(craft, "old", (4.1, 4.3))}
    found = compare(systems)
    assert found.same_ratio == {"wall_clock_tok_s": ["decode_read_gib_s", "elapsed_s", "nvme_read_gib_s"]}
    text = render(found)
    rows = [line.split()[0] for line in text.splitlines() if " .. " in line]
    assert rows == ["wall_clock_tok_s", "storage_tok_s"], "storage_tok_s is divided by another time"
    line = (
        "The same ratio as wall_clock_tok_s, as the work is equal: decode_read_gib_s, elapsed_s (inverted), nvme_read"
    )
    assert line in text
    assert found.advice is not None
    assert found.advice.notes[0].count("tells") == 1, "two names of one number are no evidence for each other"
    assert as_json(found)["same_ratio"] == found.same_ratio
    ranked = render(compare(systems | {"mid": over_elapsed(craft, "mid", (3.0, 3.1))}))
    assert ranked.count("\ndecode_read_gib_s") == 0
    assert line in ranked


def test_ratios_of_unequal_work_are_shown_separately(craft: Craft) -> None:
    systems = {"new": over_elapsed(craft, "new", (2.0, 2.2), gib=48), "old": over_elapsed(craft, "old", (4.1, 4.3))}
    found = compare(systems)
    assert found.same_ratio == {"wall_clock_tok_s": ["decode_read_gib_s", "elapsed_s"]}
    assert "\nnvme_read_gib_s" in render(found)


def test_the_metric_to_quote_depends_on_the_cpu_budget(craft: Craft) -> None:
    systems = {
        side: [craft(f"{side}-{gib:g}", speed, conditions=sizes(gib)) for gib in (0.0, 0.25, 4.0)]
        for side, speed in (("new", 2.0), ("old", 1.0))
    }
    found = compare(systems)
    assert found.advice is not None
    assert found.advice.metrics == ("wall_clock_tok_s",)
    assert found.advice.by_cpu_gib == {
        "0": ("decode_read_gib_s", "wall_clock_tok_s"),
        "0.25": ("storage_tok_s",),
        "4": ("storage_tok_s",),
    }
    lines = render(found).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("by cpu_gib"))
    assert lines[at].split()[-1] == "quote"
    table = [line.split() for line in lines[at + 1 : at + 4]]
    assert [(row[0], row[-1]) for row in table] == [
        ("0", "decode_read_gib_s"),
        ("0.25", "storage_tok_s"),
        ("4", "storage_tok_s"),
    ]
    assert "  By CPU budget: 0 GiB: decode_read_gib_s and wall_clock_tok_s, 0.25 GiB: storage_tok_s" in "\n".join(lines)


def test_a_single_budget_has_no_table(craft: Craft) -> None:
    advice = compare({side: [craft(side, conditions=sizes(4))] for side in "ab"}).advice
    assert advice is not None
    assert advice.by_cpu_gib == {}


def test_configurations_are_named_by_the_requested_size(craft: Craft) -> None:
    systems = {side: [craft(f"{side}-{gib}", conditions=sizes(gib)) for gib in (0.25, 4)] for side in "ab"}
    assert [one.name for one in compare(systems).configurations] == ["cpu 0.25 GiB", "cpu 4 GiB"]
    assert [one.cpu_gib for one in compare(systems).configurations] == [0.25, 4.0]


def test_a_device_twice_as_fast_shows_a_ratio_of_2_if_runs_are_cut(tmp_path: Path, run: Run) -> None:
    """Requests write and decode an object of 240 KiB; the cut falls between them. Three attempts, as the machine may be busy."""
    steps = [(op, request, 10) for request in range(600) for op in "wd"]
    batch = traces.columns(steps, [request for request in range(600) for _ in "wd"])
    trace = traces.write(tmp_path / "trace.parquet", batch, counts={"tokens_generated": len(steps), "users": 600})
    flags = ["--model", "tiny-1b", "--workers", 4, "--pace", "asap", "--layout", "null", "--verify", "off"]
    metrics = ("wall_clock_tok_s", "decode_read_gib_s", "nvme_read_gib_s")
    ratios = []
    for attempt in range(3):
        runs = {name: [tmp_path / f"{name}-{attempt}"] for name in ("fast", "slow")}
        for (place,), mib_s in zip(runs.values(), (40, 20), strict=True):
            run("replayer", "run", trace.path, *flags, "--throttle", f"nvme={mib_s}", "--duration", 1, "-o", place)
        found = compare(runs, vary=["throttle"])
        assert found.configurations[0].cut
        ratios.append([found.pairs[0].ratios[metric].ratio or 0 for metric in metrics])
        if all(1.9 <= ratio <= 2.1 for ratio in ratios[-1]):
            return
    pytest.fail(f"not 1.9 to 2.1 times: {ratios}")
