"""The lines that say what was tested: drive, processor, workload and caches; and the machine."""

from pathlib import Path
from typing import Final

from analysis.comparison.trials import format_condition, name_condition, write_conditions
from analysis.log.columns import GIB
from analysis.report.data import Gathered
from analysis.report.systems import Subject
from analysis.runs.plan_order import describe_order, describe_rules
from replayer.schema import TIERS, Conditions, Machine
from tracegen.errors import format_count

Facts = dict[str, str]
"""Facts of one run by name; empty texts are left out."""
_USUAL: Final = ("rules of waterfall",)
"""Facts that are told only if systems differ in them."""
_LISTED: Final = 2
"""Most systems whose facts are listed however long they are."""
_SHORT: Final = 120
"""Most letters of a fact listed for more systems; longer ones are only named."""


def list_tested(data: Gathered, titled: tuple[str, ...] = ()) -> list[str]:
    """Return a line of hardware, one of the workload, and one of what differs between systems.

    Args:
        data: the runs.
        titled: facts that the title tells.
    """
    firsts = {system: own[0] for system, own in data.valid.items()}
    lines, differing = [], []
    for describe in (_describe_hardware, _describe_workload):
        facts = {system: describe(run) for system, run in firsts.items()}
        first = next(iter(facts.values()))
        alike = [name for name in first if len({own.get(name) for own in facts.values()}) == 1]
        lines.append("; ".join(first[name] for name in alike if first[name] not in ("", *_USUAL)))
        names = dict.fromkeys(name for own in facts.values() for name in own)
        differing += [_compare(name, facts) for name in names if name not in (*alike, *titled)]
    if differing:
        lines.append(f"Differs: {'; '.join(differing)}")
    return [line for line in lines if line]


def _compare(name: str, facts: dict[str, Facts]) -> str:
    """Return a fact of each system, as "6 GiB (old, spare), 8 GiB (new)"."""
    systems: dict[str, list[str]] = {}
    for system, own in facts.items():
        if own.get(name):
            systems.setdefault(own[name], []).append(system)
    listed = ", ".join(f"{value} ({', '.join(named)})" for value, named in systems.items())
    has_room = len(facts) <= _LISTED or len(listed) <= _SHORT or name == "profile"
    return listed if has_room else name


def _describe_hardware(run: Subject) -> Facts:
    if run.summary.prediction is not None:
        return {"profile": f"PREDICTED, not measured, with {run.summary.describe_profile()}"}
    machine = run.run.infos[0].machine or Machine()
    cores = format_count(machine.cores, "core") if machine.cores else ""
    memory = f"{machine.memory_bytes / GIB:,.0f} GiB of memory" if machine.memory_bytes else ""
    conditions = run.summary.provenance.conditions
    ranks = conditions.plan.ranks or 1
    return {
        "drive": describe_tier_drive(run),
        "slowing": _describe_slowing(conditions),
        "processor": ", ".join(filter(None, (machine.cpu or "unknown processor", cores))),
        "memory": memory,
        "hosts": f"{ranks} ranks" if ranks > 1 else "",
    }


def _describe_slowing(conditions: Conditions) -> str:
    limits = format_condition("throttle", write_conditions(conditions)["throttle"])
    return "" if limits == "none" else f"slowed to {limits}"


def describe_tier_drive(run: Subject) -> str:
    """Describe the drive of the nvme tier, or what stands in for it."""
    conditions, storage = run.summary.provenance.conditions, run.summary.provenance.storage
    if conditions.plan.usable_bytes.nvme == 0:
        return "no nvme tier"
    if storage is None or conditions.devices.has_simulated_nvme:
        layout = f" (layout {conditions.devices.layout})" if conditions.devices.layout else ""
        return f"no drive, an emulated nvme tier{layout}"
    names = [storage.device_model or "drive of unknown model", storage.device, storage.filesystem]
    return ", ".join(filter(None, names))


def _describe_workload(run: Subject) -> Facts:
    provenance = run.summary.provenance
    conditions = provenance.conditions
    requests = run.summary.metrics["requests"]
    speedup = conditions.load.speedup
    is_plain = conditions.load.pace == "asap" or speedup in (None, 1)
    return {
        "model": conditions.plan.model,
        "caches": _list_caches(conditions),
        "workload": _describe_trace(run),
        "cut": provenance.cut or "",
        "requests": format_count(int(requests), "request") if requests else "",
        "users": format_count(provenance.users, "user") if provenance.users else "",
        "pace": f"pace {conditions.load.pace}" + ("" if is_plain else f" at {speedup:g} × speed"),
        "workers": format_count(conditions.load.workers, "worker"),
        "order": describe_order(conditions),
        "rules": f"rules of {describe_rules(conditions)}",
    }


def _list_caches(conditions: Conditions) -> str:
    """Return the sizes that the user asked for; the headroom of a memory tier is part of them."""
    texts = write_conditions(conditions)
    sizes = {f"usable_bytes.{tier}" for tier in TIERS}
    named = (name_condition(name, texts[name], texts.get("headroom")) for name in texts if name in sizes)
    return " + ".join(name for name in named if not name.endswith(" 0 GiB"))


def _describe_trace(run: Subject) -> str:
    """Name a trace by its sources, else by its file."""
    trace = run.run.infos[0].trace
    sources = [source.name for source in trace.sources or () if source.name]
    if sources:
        return ", ".join(sources)
    return Path(trace.path).name if trace.path else "unnamed trace"
