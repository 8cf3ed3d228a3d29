"""Doubts about the machine: a stopped process, CPUs that others used, and too few CPUs."""

from typing import Final

from analysis.doubts.doubt import Doubt, Evidence, Found

BUSY_MACHINE: Final = 0.25  # of the machine's cores, used by others: a quiet one stays below a few per cent
PAUSED_SHARE: Final = 0.01  # of the run: no rate is quoted more exactly
STARVED_SHARE: Final = 0.25  # of the I/O time: 0.08 to 0.16 on cores of its own, 0.6 to 0.9 next to busy loops
QUIET_MACHINE: Final = 0.05  # of the machine's cores, used by others: below it nothing else runs
THROTTLED_SHARE: Final = 0.05  # of the run: at least as many of its moves met the quota


def check_pauses(run: Evidence) -> Found:
    """Doubt times that include a stop of the process."""
    stopped_s = run.values["paused_s"]
    elapsed_s = run.values["elapsed_s"]
    if not stopped_s:
        return
    share = stopped_s / elapsed_s if elapsed_s else 1.0
    gap_s = run.values["longest_gap_s"]
    text = (
        f"the replayer stood still for at least {stopped_s:.1f} s, {share:.1%} of the run: up to {gap_s:.1f} s"
        " passed between two samples, which are taken every second"
    )
    advice = "find what stopped it (a signal, a suspended machine, a frozen cgroup, a debugger), and replay it"
    yield Doubt("paused", text, advice, invalidates=share > PAUSED_SHARE)


def check_busy_machine(run: Evidence) -> Found:
    """Doubt a machine whose CPUs others used."""
    share = run.values["foreign_cpu_share"]
    cores = run.values["foreign_cpu"]
    stolen = run.values["steal_cpu"]
    if share is None or share <= BUSY_MACHINE:
        return
    text = f"others kept {cores:.2f} of {run.host_cores} cores busy: processes, or the kernel for this run's I/O"
    if stolen and stolen >= 0.005:
        text += f", other machines took {stolen:.2f} (steal)"
    advice = "replay it on a machine that runs nothing else: its times include waits for a CPU"
    yield Doubt("busy machine", text, advice)


def check_cpu_waits(run: Evidence) -> Found:
    """Doubt device times that include waits of workers for a CPU."""
    if run.conditions.has_simulated_nvme and run.conditions.usable_bytes.nvme != 0:
        return  # its moves take no time to wait in
    values = run.values
    share = values["run_delay_share"]
    findings = []
    if _is_throttled(run):
        held = f"{values['throttled_s']:.1f} s of CPU time in {values['elapsed_s']:.1f} s"
        findings.append(f"a quota of its cgroup held the replayer up for {held}")
        advice = "raise the quota (cpu.max, cpu.cfs_quota_us)"
    elif share is not None and share > STARVED_SHARE:
        is_shared = (values["foreign_cpu_share"] or 0) > QUIET_MACHINE
        advice = "stop what else runs" if is_shared else "replay with more cores, or fewer --workers"
    else:
        return
    if share:
        io_s = values["run_delay_s"] / share
        findings.append(f"workers waited {values['run_delay_s']:.1f} s for a CPU, compared with {io_s:.1f} s of I/O")
    yield Doubt("starved", "; ".join(findings), advice)


def lacks_cpu(run: Evidence) -> bool:
    """Return whether others, or a quota, took CPUs that the run needed."""
    return _is_throttled(run) or any(check_busy_machine(run))


def _is_throttled(run: Evidence) -> bool:
    throttled_s = run.values["throttled_s"]
    elapsed_s = run.values["elapsed_s"]
    return bool(throttled_s and elapsed_s) and throttled_s > THROTTLED_SHARE * elapsed_s
