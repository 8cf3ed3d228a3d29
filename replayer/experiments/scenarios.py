"""The suite: a shipped sweep of nine scenarios, sized to what is free on this machine."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Final

from replayer.experiments import children
from replayer.experiments.autoscale import SearchReport, autoscale
from replayer.experiments.children import ChildFailedError
from replayer.experiments.prediction import Predictor
from replayer.experiments.replay_series import SERIES_FILE, Series
from replayer.experiments.search_settings import THROUGHPUT, SearchSettings, describe_metric
from replayer.experiments.sweep import SCENARIOS, Case, Sweep, make_traces, parse_sweep, run_sweep
from replayer.flags.forwarded_flags import flag_words, parse_flags
from replayer.machine import description, free_memory
from replayer.machine.reserve import Reserve, find_existing, free_bytes
from replayer.models.geometry import TokenBytes
from replayer.tiers import gpu
from tracegen.errors import InputError, format_count

_AGAINST: Final = "--against"
BASELINE: Final = "storage-only"
SEARCH: Final = "autoscaling"
DEFAULT_TRIALS: Final = 3
"""The fewest trials whose interval is worth showing."""
_GIB: Final = 1 << 30
_LEAST_FREE: Final = 256 << 20
_MOST: Final = 16 * _GIB
"""More in a tier says no more about it."""
_OBJECTS: Final = 256
_PROMPTS: Final = (16, 4096)
_MEAN_PROMPT: Final = 0.625 * (1 + 1 / 8) / 2
"""A chatbot's mean prompt over the longest: a quarter to all of a context of 1/8 to 1 of it."""
_LIVE_OBJECTS: Final = 8
"""The most turns of a session, whose objects its next turn reads."""
_USERS: Final = (2, 32, 200)
_IN_FLIGHT: Final = 2 * _GIB
_CAPACITIES: Final = {"gpu": "gpu_mem_gb", "cpu": "cpu_mem_gb", "nvme": "storage_capacity_gb"}

SuiteSizes = dict[str, str]
"""What stands for each $WORD of the sweep."""


@dataclass(frozen=True)
class Hardware:
    """The free memory and disk of a machine.

    Attributes:
        free: bytes by tier.
        device: the drive under the cache directory.
        absent: the reason, by tier, for which scenarios cannot use it.
    """

    free: Mapping[str, int]
    device: str
    absent: Mapping[str, str]

    def describe(self) -> str:
        """Describe it in one line."""
        names = {"gpu": "GPU memory", "cpu": "memory", "nvme": "disk"}
        sizes = ", ".join(f"{size / _GIB:.1f} GiB of {names[tier]}" for tier, size in self.free.items() if size)
        return f"free: {sizes}; {self.device}"


def detect_hardware(cache_dir: Path | None, gpu_device: str) -> Hardware:
    """Return what is free on this machine.

    Args:
        cache_dir: the directory for the nvme tier; None: there is no such tier.
        gpu_device: by PyTorch's name.
    """
    absent = {}
    free = {"gpu": 0, "cpu": free_memory.available().bytes, "nvme": 0}
    device = "no cache directory"
    try:
        free["gpu"] = gpu.free_gpu_bytes(gpu_device)
    except gpu.MissingGpuError as error:
        absent["gpu"] = error.reason
    if cache_dir is None:
        absent["nvme"] = "no cache directory is named"
    else:
        free["nvme"] = max(0, free_bytes(cache_dir) - Reserve().bytes_on(cache_dir))
        facts = description.storage(find_existing(cache_dir))
        device = f"{facts['device']} ({facts['filesystem']})"
    for tier, size in free.items():
        if size < _LEAST_FREE:
            absent.setdefault(tier, f"only {size / 2**20:,.0f} MiB are free")
    return Hardware(free, device, absent)


def choose_sizes(hardware: Hardware, model: TokenBytes) -> SuiteSizes:
    """Return sizes that fit a machine.

    A tier holds 256 mean objects, and the few users' live objects are at most as many. The many
    users' objects in flight take about 2 GiB.

    Args:
        hardware: that is free.
        model: bytes of a token and of a state.
    """
    rooms = [size for tier, size in hardware.free.items() if tier not in hardware.absent]
    size = min(_MOST, min(rooms, default=_LEAST_FREE) // 4)
    low, high = _PROMPTS
    prompt = max(low, min(high, int((size / _OBJECTS - model.state) / model.per_token / _MEAN_PROMPT)))
    object_bytes = prompt * _MEAN_PROMPT * model.per_token + model.state
    least, enough, most = _USERS
    few = max(least, min(enough, int(size / object_bytes / _LIVE_OBJECTS)))
    many = max(few, min(most, int(_IN_FLIGHT / object_bytes)))
    shares = {"all": 1, "third": 1 / 3, "quarter": 1 / 4, "sixth": 1 / 6}
    return {
        **{name: f"{size * share / _GIB:.3f}" for name, share in shares.items()},
        "disk": f"{max(_LEAST_FREE, hardware.free['nvme']) / 2 / _GIB:.2f}",
        "low": f"{max(1, prompt // 8)}",
        "high": f"{prompt}",
        "few": f"{few}",
        "many": f"{many}",
    }


def read_sizes(directory: Path) -> SuiteSizes | None:
    """Return the sizes of the suite that was begun in a directory; None: there is none."""
    try:
        sizes: SuiteSizes | None = json.loads((directory / SERIES_FILE).read_text()).get("sizes")
    except (OSError, ValueError):
        return None
    return sizes


@dataclass(frozen=True)
class Suite:
    """The scenarios to run on a machine.

    Attributes:
        sweep: of all but the search.
        search: the scenario that searches for users; None: not asked for.
        skipped: the reason by scenario.
        sizes: of all scenarios.
        seconds: of each scenario, all its trials together.
        trial_s: seconds of a trial.
    """

    sweep: Sweep
    search: Case | None
    skipped: dict[str, str]
    sizes: SuiteSizes
    seconds: float
    trial_s: float

    @property
    def cases(self) -> list[Case]:
        """All scenarios, the search last."""
        return [*self.sweep.cases, *([self.search] if self.search else [])]

    def runs(self) -> dict[str, list[str]]:
        """Return the names of each scenario's replays, the search left out."""
        trials = range(1, self.sweep.trials + 1)
        return {case.name: [f"{case.name}/trial_{trial}" for trial in trials] for case in self.sweep.cases}

    def describe(self) -> list[str]:
        """Describe what is going to be run, in lines."""
        words = self.sizes
        trials = format_count(self.sweep.trials, "trial")
        return [
            f"tiers of up to {float(words['all']):.2f} GiB, prompts of up to {int(words['high']):,} tokens;"
            f" {words['few']} users, {words['many']} to saturate NVMe; {trials} of {self.trial_s:.0f} s each, by turns",
            *(f"  {case.name:22}{_describe_tiers(case)}" for case in self.cases),
            *(f"  {name:22}skipped: {reason}" for name, reason in self.skipped.items()),
        ]


def list_scenarios() -> list[str]:
    """Return the names of all scenarios."""
    return [case["name"] for case in tomllib.loads(SCENARIOS.read_text())["case"]]


def plan_suite(
    names: Sequence[str], sizes: SuiteSizes, hardware: Hardware, flags: Mapping[str, str], budget_s: float, trials: int
) -> Suite:
    """Return the scenarios that a machine can run.

    Args:
        names: of scenarios; none: all of them.
        sizes: of all scenarios.
        hardware: of the machine.
        flags: of `replayer run`, for every scenario.
        budget_s: seconds of replaying for all scenarios together.
        trials: of each scenario.

    Raises:
        InputError: it cannot run any of them, or the model is unknown.
    """
    skipped, possible = {}, []
    for case in _fill(sizes, trials, flags).cases:
        if names and case.name not in names:
            continue
        lacking = [tier for tier in _tiers(case) if tier in hardware.absent]
        if lacking:
            skipped[case.name] = f"no {lacking[-1]} tier: {hardware.absent[lacking[-1]].removesuffix('.')}"
        else:
            possible.append(case.name)
    if not possible:
        name, reason = next(iter(skipped.items()))
        remedy = "name other scenarios"
        if "nvme" in hardware.absent:
            remedy += ", or pass `cache_dir` with a directory that has room"
        raise InputError(f"cannot run here: {reason}", remedy, subject=name)
    seconds = budget_s / len(possible)
    trial_s = seconds / trials
    limited = _fill(sizes, trials, {**flags, "duration": f"{trial_s:g}"})
    cases = tuple(case for case in limited.cases if case.name in possible and case.name != SEARCH)
    search = next((case for case in _fill(sizes, trials, flags).cases if case.name == SEARCH), None)
    return Suite(Sweep(trials, 0, cases), search if SEARCH in possible else None, skipped, sizes, seconds, trial_s)


def run_suite(suite: Suite, series: Series, gpu_device: str) -> SearchReport | None:
    """Run all scenarios, and write report.html to the series' directory.

    Args:
        suite: to run.
        series: makes the replays.
        gpu_device: by PyTorch's name.

    Returns:
        The report of the search; None: there was none.

    Raises:
        ChildFailedError: a replay, tracegen or analysis failed.
        ToolError: a replay of the search is not valid.
    """
    traces = make_traces(suite.cases, series)
    device = flag_words("gpu_device", gpu_device)
    cases = tuple(replace(case, flags=(*case.flags, *device)) for case in suite.sweep.cases)
    run_sweep(replace(suite.sweep, cases=cases), series)
    runs = [run for trials in suite.runs().values() for run in trials]
    search = None
    if suite.search is not None:
        search, found = _run_search(suite, series, traces[SEARCH], (*suite.search.flags, *device))
        runs += found
    words = [str(series.directory / run) for run in runs]
    if BASELINE in suite.runs():
        words += ["--baseline", str(series.directory / suite.runs()[BASELINE][0])]
    if runs:  # a search alone may find no answer
        children.write_page(*words, directory=series.directory, display=series.display)
    return search


def compare_scenarios(suite: Suite, series: Series, *flags: str) -> str:
    """Return what `analysis compare` prints of the scenarios that do the same requests; empty: there are not two.

    Raises:
        ChildFailedError: it failed; with its own error.
    """
    ranked = {case.name for case in suite.sweep.cases if parse_flags(case.flags).plan.get("pace") == "asap"}
    sets = [[str(series.directory / run) for run in runs] for name, runs in suite.runs().items() if name in ranked]
    if len(sets) < 2:
        return ""
    words = [*sets[0], *(word for runs in sets[1:] for word in (_AGAINST, *runs))]
    return children.run_analysis("compare", *words, "--vary", "usable_bytes", *flags, display=series.display)


def predict_suite(suite: Suite, series: Series, predictor: Predictor) -> str:
    """Predict a trial of each scenario but the search; return what `analysis compare` prints of both.

    Raises:
        ChildFailedError: a prediction failed, other than by a profile that does not allow it.
    """
    traces = make_traces(suite.cases, series)
    sets: tuple[list[str], list[str]] = ([], [])
    for case in suite.sweep.cases:
        name = f"{case.name}/predicted"
        missing = [tier for tier in _tiers(case) if tier not in predictor.profile.tiers]
        if missing:
            series.display.say(f"{name}: the profile has no {missing[0]} tier")
            continue
        try:
            predicted = series.replay(name, traces[case.name], case.flags, predictor)
        except ChildFailedError as error:
            if error.exit_code != InputError.exit_code:
                raise
            series.display.say(f"{name}: outside the profile: see {case.name}/log-predicted.txt")
            continue
        sets[0].extend(str(series.directory / run) for run in suite.runs()[case.name])
        sets[1].append(str(predicted))
    if not sets[1]:
        return ""
    return children.run_analysis("compare", *sets[0], _AGAINST, *sets[1], display=series.display)


def _fill(sizes: SuiteSizes, trials: int, flags: Mapping[str, str]) -> Sweep:
    """Return the shipped sweep with the sizes for its words."""
    content = tomllib.loads(Template(SCENARIOS.read_text()).substitute(sizes))
    return parse_sweep(SCENARIOS, content, trials, [f"{name}={value}" for name, value in flags.items()])


def _tiers(case: Case) -> list[str]:
    """Return the tiers that a scenario needs."""
    plan = parse_flags(case.flags).plan
    return [tier for tier, flag in _CAPACITIES.items() if plan.get(flag) != 0]


def _describe_tiers(case: Case) -> str:
    plan = parse_flags(case.flags).plan
    return ", ".join(f"{tier} {plan.get(_CAPACITIES[tier])} GiB" for tier in _tiers(case))


def _run_search(suite: Suite, parent: Series, trace: Path, flags: tuple[str, ...]) -> tuple[SearchReport, list[str]]:
    """Search for capacity in about a dozen replays; return its report and the answer's runs."""
    duration_s = max(1.0, suite.seconds / 20)
    settings = SearchSettings(
        trace=trace,
        mode="capacity",
        metric=THROUGHPUT,
        target=0,
        users=None,
        trials=2,
        precision=0.25,
        duration_s=duration_s,
        flags=(*flags, "--warmup", f"{duration_s / 5:g}s"),
    )
    directory = parent.directory / SEARCH
    with Series(directory, settings.record(), parent.cache, display=parent.display) as series:
        report = autoscale(settings, describe_metric(settings, parent.display), series, lambda _: None)
    users = report["result"]["users"]
    rows = [row for row in report["autoscaling_stats"] if row["users"] == users]
    return report, [str(Path(run).relative_to(parent.directory)) for row in rows for run in row["runs"]]
