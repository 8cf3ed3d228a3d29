"""Doubts on the machine: others that used its CPUs, too few of them, and a process that was stopped."""

from typing import Final

from analysis.doubts.doubt import Doubt, Evidence, Found

BUSY_MACHINE: Final = 0.25  # of the machine's cores, others': a quiet one stays below a few per cent
PAUSED_SHARE: Final = 0.01  # of the run: no rate is quoted to less
STARVED_SHARE: Final = 0.25  # of the I/O's time: 0.08 to 0.16 on cores of its own, 0.6 to 0.9 beside busy loops
QUIET_MACHINE: Final = 0.05  # of the machine's cores, others': below it nothing else runs
THROTTLED_SHARE: Final = 0.05  # of the run: as many of its moves, and more, met the quota


def check_pauses(run: Evidence) -> Found:
    """The process was stopped, and its times hold that."""
    stopped_s, elapsed_s = run.values["paused_s"], run.values["elapsed_s"]
    if not stopped_s:
        return
    share = stopped_s / elapsed_s if elapsed_s else 1.0
    gap_s = run.values["longest_gap_s"]
    text = (
        f"the replayer stood still for at least {stopped_s:.1f} s, {share:.1%} of the run: up to {gap_s:.1f} s lie"
        " between two samples, which are taken every second"
    )
    advice = "find what stopped it (a signal, a suspended machine, a frozen cgroup, a debugger), and replay it"
    yield Doubt("paused", text, advice, invalidates=share > PAUSED_SHARE)


def check_busy_machine(run: Evidence) -> Found:
    """Others had the CPUs."""
    share, cores, stolen = (run.values[name] for name in ("foreign_cpu_share", "foreign_cpu", "steal_cpu"))
    if share is None or share <= BUSY_MACHINE:
        return
    text = f"others kept {cores:.2f} of {run.host_cores} cores busy: processes, or the kernel for this run's I/O"
    if stolen and stolen >= 0.005:
        text += f", other machines took {stolen:.2f} (steal)"
    yield Doubt("busy machine", text, "replay it where nothing else runs: its times hold waits for a CPU")


def check_cpu_waits(run: Evidence) -> Found:
    """Workers waited for a CPU, and times of devices hold that."""
    values, text = run.values, ""
    if run.conditions.layout == "null" and run.conditions.usable_bytes.nvme != 0:
        return  # its moves take no time that one could wait in
    share = values["run_delay_share"]
    if _is_throttled(run):
        held = f"{values['throttled_s']:.1f} s of CPU time in {values['elapsed_s']:.1f} s"
        text = f"a quota of its cgroup held the replayer up for {held}; "
        advice = "raise the quota (cpu.max, cpu.cfs_quota_us)"
    elif share is not None and share > STARVED_SHARE:
        others = (values["foreign_cpu_share"] or 0) > QUIET_MACHINE
        advice = "stop what else runs" if others else "replay with more cores, or fewer --workers"
    else:
        return
    if share:
        io_s = values["run_delay_s"] / share
        text += f"workers waited {values['run_delay_s']:.1f} s for a CPU, beside {io_s:.1f} s of I/O"
    yield Doubt("starved", text.removesuffix("; "), advice)


def lacks_cpu(run: Evidence) -> bool:
    """Whether others, or a quota, took the CPUs that the run lacked."""
    return _is_throttled(run) or any(check_busy_machine(run))


def _is_throttled(run: Evidence) -> bool:
    throttled_s, elapsed_s = run.values["throttled_s"], run.values["elapsed_s"]
    return bool(throttled_s and elapsed_s) and throttled_s > THROTTLED_SHARE * elapsed_s
