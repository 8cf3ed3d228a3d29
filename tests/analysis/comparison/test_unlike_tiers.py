"""Systems that differ in their tiers: what is compared without being asked, which ratios are one, what to quote."""

from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.compare import compare
from analysis.comparison.text import as_json, render
from tests.analysis.comparison.crafting import Craft
from tests.support import traces
from tests.support.command_line import Run
from tracegen.errors import InputError

GIB = 2**30


def sizes(cpu_gib: float = 0, nvme: int | None = None) -> dict[str, Any]:
    """Conditions of tiers, the headroom taken off the cpu tier."""
    usable = {"gpu": 0, "cpu": int(cpu_gib * GIB * 0.8), "nvme": nvme}
    return {"usable_bytes": usable, "headroom": "0.8"}


def machine(device: str | None) -> dict[str, Any]:
    return {"host": "vm", "cpu": "EPYC", "cores": 2, "storage": {"device": device}}


# A run with an nvme tier and one without


def test_memory_alone_and_nvme_need_no_other_flag_than_the_tiers(craft: Craft) -> None:
    """What is said of the nvme tier follows from there being one; and a memory run names no device of the machine."""
    memory = craft("a", conditions=sizes(4, nvme=0) | {"direct": None, "io_engine": None}, machine=machine(None))
    nvme = craft("b", conditions=sizes(4) | {"direct": True, "io_engine": "psync"}, machine=machine("/dev/vda"))
    with pytest.raises(InputError, match=r"pass --vary usable_bytes.nvme where"):
        compare({"memory": [memory], "nvme": [nvme]})
    found = compare({"memory": [memory], "nvme": [nvme]}, vary=["usable_bytes.nvme"])
    assert not found.warnings
    assert set(found.varied) == {"usable_bytes.nvme"}
    assert not compare({"memory": [memory], "nvme": [nvme]}, vary=["usable_bytes"]).warnings


def test_runs_of_both_in_one_set_come_from_one_machine(craft: Craft) -> None:
    sides = {}
    for side, device in (("old", "/dev/sda"), ("new", "/dev/sdb")):
        memory = sizes(4, nvme=0) | {"direct": None, "io_engine": None}
        sides[side] = [
            craft(f"{side}-m", conditions=memory, machine=machine(None)),
            craft(f"{side}-n", conditions=sizes(4) | {"io_engine": "psync"}, machine=machine(device)),
        ]
    assert not compare(sides).warnings


def test_what_is_said_of_a_tier_must_be_equal_where_there_is_one(craft: Craft) -> None:
    a = craft("a", conditions=sizes(nvme=GIB) | {"direct": True})
    b = craft("b", conditions=sizes(nvme=2 * GIB) | {"direct": False})
    with pytest.raises(InputError, match="these runs have true and false for direct; pass --vary direct"):
        compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme"])
    found = compare({"a": [a], "b": [b]}, vary=["usable_bytes.nvme", "direct"])
    assert len(found.configurations) == 1


# Ratios that are one


def over_elapsed(craft: Craft, name: str, seconds: tuple[float, ...], gib: float = 64.0) -> list[Path]:
    """Equal work in so many seconds."""
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


def test_one_ratio_is_shown_once(craft: Craft) -> None:
    sides = {"new": over_elapsed(craft, "new", (2.0, 2.2)), "old": over_elapsed(craft, "old", (4.1, 4.3))}
    found = compare(sides)
    assert found.same_ratio == {"wall_clock_tok_s": ["decode_read_gib_s", "elapsed_s", "nvme_read_gib_s"]}
    text = render(found)
    rows = [line.split()[0] for line in text.splitlines() if " .. " in line]
    assert rows == ["wall_clock_tok_s", "storage_tok_s"], "storage_tok_s is over another time, whatever its ratio"
    line = (
        "The same ratio as wall_clock_tok_s, as the work is equal: decode_read_gib_s, elapsed_s (inverted), nvme_read"
    )
    assert line in text
    assert found.advice is not None
    assert found.advice.notes[0].count("tells") == 1, "two names of one number are no two witnesses"
    assert as_json(found)["same_ratio"] == found.same_ratio
    ranked = render(compare(sides | {"mid": over_elapsed(craft, "mid", (3.0, 3.1))}))
    assert ranked.count("\ndecode_read_gib_s") == 0
    assert line in ranked


def test_ratios_of_unequal_work_stand_apart(craft: Craft) -> None:
    sides = {"new": over_elapsed(craft, "new", (2.0, 2.2), gib=48), "old": over_elapsed(craft, "old", (4.1, 4.3))}
    found = compare(sides)
    assert found.same_ratio == {"wall_clock_tok_s": ["decode_read_gib_s", "elapsed_s"]}
    assert "\nnvme_read_gib_s" in render(found)


# Budgets of memory


def test_the_metric_to_quote_goes_by_the_cpu_budget(craft: Craft) -> None:
    sides = {
        side: [craft(f"{side}-{gib:g}", speed, conditions=sizes(gib)) for gib in (0.0, 0.25, 4.0)]
        for side, speed in (("new", 2.0), ("old", 1.0))
    }
    found = compare(sides)
    assert found.advice is not None
    assert found.advice.metrics == ("wall_clock_tok_s",), "over all of them"
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


def test_one_budget_needs_no_table(craft: Craft) -> None:
    advice = compare({side: [craft(side, conditions=sizes(4))] for side in "ab"}).advice
    assert advice is not None
    assert advice.by_cpu_gib == {}


def test_configurations_are_named_by_the_size_asked_for(craft: Craft) -> None:
    sides = {side: [craft(f"{side}-{gib}", conditions=sizes(gib)) for gib in (0.25, 4)] for side in "ab"}
    assert [one.name for one in compare(sides).configurations] == ["cpu 0.25 GiB", "cpu 4 GiB"]
    assert [one.cpu_gib for one in compare(sides).configurations] == [0.25, 4.0]


# Real replays that are cut


def test_a_device_twice_as_fast_shows_twice_when_runs_are_cut(tmp_path: Path, run: Run) -> None:
    """Requests that write and decode an object of 240 KiB; both runs end in their midst. A busy machine has three tries."""
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
