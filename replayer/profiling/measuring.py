"""`measure_profile`: a machine's tiers in, a profile out."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from replayer.machine import description
from replayer.machine.reserve import free_bytes
from replayer.options.settings import Settings
from replayer.planning.moves import GPU
from replayer.prediction.profile import Profile, ProfileConditions, ThrottleLimits, TierProfile
from replayer.profiling.cells import find_medians
from replayer.profiling.rig import SMALLEST, Rig
from replayer.profiling.rounds import DRIVE, CellSeries, Findings, ShowRun
from replayer.profiling.tier_fit import compare_cells, compute_rate, find_error, fit_cpu, fit_tier, limit_rate
from replayer.record.conditions import Tier
from replayer.tiers import cache_dir, gpu
from tracegen.errors import InputError, ToolError
from tracegen.memory import available

# Bytes of objects in a tier at most: enough for 64 workers with 4 MiB each, and no caches
_MOST_ROOM: Final = 1 << 30
_LEAST_ROOM: Final = 64 << 20
_SHARE_OF_FREE: Final = 4  # the part of free memory and disk that a profile takes: a quarter
_UNIT: Final = 1 << 20
# Of the cores: if the load average was higher before, times are those of others, too
_BUSY_SHARE: Final = 0.5
# Of a fit: a worse one predicts nothing
_MOST_ERROR: Final = 0.5


def measure_profile(
    name: str,
    tiers: tuple[Tier, ...],
    settings: Settings,
    budget_s: float,
    progress: ShowRun,
    say: Callable[[str], None],
    poll: Callable[[], None],
) -> Profile:
    """Measure tiers; return the profile that fits them.

    Args:
        name: of the profile.
        tiers: to be measured.
        settings: of the runs.
        budget_s: seconds that measuring should take.
        progress: is told before each run.
        say: takes warnings, as sentences.
        poll: called often; an exception that it raises ends the measurement.

    Raises:
        InputError: a tier cannot be opened, or has too little room.
        ToolError: a move failed, the budget is too short for a tier, or a fit is too far off.
    """
    if settings.devices.cache_dir is not None:
        cache_dir.check_parent(settings.devices.cache_dir)
    others = os.getloadavg()[0]  # of the last minute, before this process adds to it
    room = {tier: _choose_room(tier, settings) for tier in tiers}
    with ExitStack() as opened:
        rig = Rig(settings, room, opened, say, poll)
        facts = _describe_machine(settings, rig)
        conditions = _make_conditions(settings, rig)
        findings = CellSeries(rig, room, budget_s, progress).measure()
    facts["load_before"] = round(others, 2)
    if others > _BUSY_SHARE * float(facts["cores"]):
        say(f"{others:.1f} of {facts['cores']} cores were busy before: measure again when the machine is idle.")
    profile, warnings = fit_profile(name, conditions, facts, findings)
    for warning in warnings:
        say(warning)
    for tier in profile.tiers:
        error = float(profile.machine[f"{tier}_error"])
        if error > _MOST_ERROR:
            why = "the tier is not as the model has it, or the machine was busy"
            remedy = "measure on an idle machine, or with a larger `budget`"
            raise ToolError(f"the fit is {error:.0%} off: {why}", remedy, subject=tier)
    return profile


def fit_profile(
    name: str, conditions: ProfileConditions, facts: Mapping[str, str | int | float], findings: Findings
) -> tuple[Profile, list[str]]:
    """Return the profile that fits what was measured, and warnings.

    Args:
        name: of the profile.
        conditions: under which it was measured.
        facts: about the machine; `cores` is what workers may use.
        findings: what was measured.
    """
    rounds = findings.rounds
    cpu = fit_cpu(float(facts["cores"]), find_medians(rounds))
    piece_bytes = conditions.io_bytes * conditions.io_depth
    machine = dict(facts)
    tiers = dict[Tier, TierProfile]()
    for tier in dict.fromkeys(cell.tier for cell in rounds):
        tiers[tier] = fit_tier(tier, rounds, piece_bytes)
        machine[f"{tier}_error"] = find_error(compare_cells(tiers[tier], tier, rounds))
    warnings = list[str]()
    for what, visits in findings.sustained.items():
        machine[f"nvme_sustained_{what}_gb_s"] = compute_rate(visits)
        station, warning = limit_rate(getattr(tiers[DRIVE], what), what, visits)
        kept: dict[str, Any] = {what: station}
        tiers[DRIVE] = replace(tiers[DRIVE], **kept)
        if warning:
            warnings.append(warning)
    cells = [cell for tier, one in tiers.items() for cell in compare_cells(one, tier, rounds)]
    profile = Profile(name, "measured", cpu, tiers, conditions=conditions, machine=machine, cells=tuple(cells))
    return profile, warnings


def _choose_room(tier: Tier, settings: Settings) -> int:
    """Return the bytes that objects may take in a tier: whole MiB.

    Raises:
        InputError: too little is free, or there is no GPU for the gpu tier.
    """
    free = _MOST_ROOM * _SHARE_OF_FREE
    if tier == "gpu":
        free = gpu.free_gpu_bytes(settings.devices.gpu_device, "leave gpu out of `tiers`")
    elif tier == "nvme" and settings.is_on_drive and settings.devices.cache_dir is not None:
        free = free_bytes(settings.devices.cache_dir) - settings.control.reserve.bytes_on(settings.devices.cache_dir)
    else:
        free = available().bytes or free
    room = min(_MOST_ROOM, free // _SHARE_OF_FREE) // _UNIT * _UNIT
    if room < _LEAST_ROOM:
        problem = f"{max(free, 0) / 2**20:,.0f} MiB are free, and a profile takes a quarter of that"
        raise InputError(problem, f"make {_LEAST_ROOM * _SHARE_OF_FREE >> 20} MiB free", subject=tier)
    assert room >= SMALLEST, "an object fits"
    return room


def _describe_machine(settings: Settings, rig: Rig) -> dict[str, str | int | float]:
    """Return facts that are plain texts and numbers."""
    machine, storage = description.describe(), rig.tiers.storage()
    names = ("host", "cpu", "cores", "memory_bytes", "kernel", "core_sha256")
    facts = {"measured": datetime.now(UTC).isoformat(timespec="seconds")}
    facts |= {name: getattr(machine, name) for name in names}
    if storage is not None:
        facts |= msgspec.structs.asdict(storage)
    if rig.tiers.all[GPU] is not None:
        facts["gpu"] = str(gpu.describe_gpu(settings.devices.gpu_device).device)
    return {name: value for name, value in facts.items() if value is not None}


def _make_conditions(settings: Settings, rig: Rig) -> ProfileConditions:
    nvme = rig.tiers.nvme
    throttles = {tier: one.as_dict() for tier, one in settings.throttles.items()}
    return ProfileConditions(
        layout=settings.devices.layout,
        direct=nvme is not None and nvme.direct,
        io_bytes=settings.io.size,
        io_depth=settings.io.depth,
        io_engine=settings.io.engine,
        fsync=settings.io.fsync,
        verify=settings.devices.verify,
        gpu_read=settings.devices.gpu_read,
        throttle=cast("dict[Tier, ThrottleLimits]", throttles),
    )
