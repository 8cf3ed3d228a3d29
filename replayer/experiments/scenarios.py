"""The suite: kv-cache.py's nine scenarios, sized to the machine, and a ranking of its tiers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Final, TypedDict

from replayer.experiments import children
from replayer.experiments.agenda import Agenda
from replayer.experiments.autoscale import SearchReport, autoscale
from replayer.experiments.children import ChildFailedError
from replayer.experiments.prediction import Predictor, PredictorRow
from replayer.experiments.replay_series import Series
from replayer.experiments.scenario_sizes import DEFAULT_TRIALS, GIB, Hardware, Sizes, size_scenarios
from replayer.experiments.scenario_table import BASELINE, RECIPES, SCENARIOS, SEARCH, Scenario
from replayer.experiments.search_settings import THROUGHPUT, SearchSettings, describe_metric
from replayer.experiments.steps import Step
from replayer.flags.forwarded_flags import flag_words
from replayer.models import known as models
from replayer.planning.plan import Plan, PlanOptions
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

_RATE: Final = "wall_clock_tok_s"
"""The metric of the ranking."""


@dataclass(frozen=True)
class Suite:
    """The scenarios to run on a machine.

    Attributes:
        names: of the scenarios.
        skipped: the reason by scenario.
        sizes: of all scenarios.
        hardware: that they are sized to.
        model: its name.
    """

    names: list[str]
    skipped: dict[str, str]
    sizes: Sizes
    hardware: Hardware
    model: str

    def describe(self) -> list[str]:
        """Describe what is going to be run, in lines."""
        sizes = self.sizes
        working_set = f"working set {sizes.working_set / GIB:.2f} GiB in {sizes.requests:,} requests"
        many, few = sizes.users
        users = f"{few} users, {many} to saturate NVMe"
        trials = f"{format_count(sizes.trials, 'trial')} of {sizes.trial_s:.0f} s each"
        return [
            f"{self.model}; {self.hardware.describe()}",
            f"{working_set}, up to {sizes.prompt:,} tokens; {users}; {trials}",
            *(f"  {name:22}{SCENARIOS[name].title}" for name in self.names),
            *(f"  {name:22}skipped: {reason}" for name, reason in self.skipped.items()),
        ]


class RankedScenario(TypedDict):
    """A scenario in the ranking that `analysis report --format json` prints.

    Attributes:
        system: its name.
        tok_s, tok_s_low, tok_s_high: tokens per second and their 95% interval.
        speed_up, low, high: over the baseline, and its 95% interval; None: not compared.
        cut: whether a run reached its time limit, so that rates are of each run's own window.
        trials: number of runs.
        why: the reason for which it is not compared.
    """

    system: str
    tok_s: float | None
    tok_s_low: float | None
    tok_s_high: float | None
    speed_up: float | None
    low: float | None
    high: float | None
    cut: bool
    trials: int
    why: str | None


class PredictedScenario(TypedDict):
    """The prediction of a scenario.

    Attributes:
        run: the predicted run directory; None: there is none.
        measured: tokens per second, the mean of the trials.
        tok_s: the same, predicted.
        low, high: the interval of the prediction.
        why: the reason for which there is no prediction.
    """

    run: str | None
    measured: float | None
    tok_s: float | None
    low: float | None
    high: float | None
    why: str | None


class SuiteReport(TypedDict):
    """The content of scenarios.json; `predicted` is by scenario, empty without a profile."""

    autoscaling: SearchReport | None
    hardware: dict[str, object]
    sizes: dict[str, object]
    model: str
    runs: dict[str, list[str]]
    skipped: dict[str, str]
    ranking: list[RankedScenario]
    prediction: PredictorRow | None
    predicted: dict[str, PredictedScenario]


def plan_suite(
    names: Sequence[str], hardware: Hardware, model: str, budget_s: float, trials: int = DEFAULT_TRIALS
) -> Suite:
    """Return the scenarios that a machine can run, with their sizes.

    Args:
        names: of scenarios; none: all of them.
        hardware: of the machine.
        model: a name or a file, as `replayer run` takes it.
        budget_s: seconds of replaying for all scenarios together.
        trials: of each scenario.

    Raises:
        InputError: it cannot run any of them, or the model is unknown.
    """
    wanted = list(dict.fromkeys(names)) or list(SCENARIOS)
    skipped = {
        name: f"no {tier} tier: {hardware.absent[tier].removesuffix('.')}"
        for name in wanted
        for tier in reversed(SCENARIOS[name].tiers)
        if tier in hardware.absent
    }
    possible = [name for name in wanted if name not in skipped]
    if not possible:
        name = wanted[0]
        remedy = "name other scenarios"
        if "nvme" in hardware.absent:
            remedy += ", or pass `cache_dir` with a directory that has room"
        raise InputError(f"cannot run here: {skipped[name]}", remedy, subject=name)
    each = models.find_model(model).sizes("fp16")
    seconds = budget_s / len(possible)
    sizes = size_scenarios(hardware, each.per_token, seconds, trials, each.state)
    return Suite(possible, skipped, sizes, hardware, model)


def run_suite(
    suite: Suite,
    series: Series,
    gpu_device: str,
    predictor: Predictor | None = None,
) -> SuiteReport:
    """Run all scenarios, and write scenarios.json and report.html to the series' directory.

    Args:
        suite: to run.
        series: makes the replays.
        gpu_device: by PyTorch's name.
        predictor: also predicts each scenario but the search.

    Returns:
        The content of scenarios.json.

    Raises:
        ChildFailedError: a replay, tracegen or analysis failed.
        ToolError: a replay of the search is not valid.
    """
    hardware = asdict(suite.hardware)
    (series.directory / "hardware.json").write_text(json.dumps(hardware, indent=1) + "\n")
    runs, search = _run_scenarios(suite, series, gpu_device)
    predicted: dict[str, PredictedScenario] = {}
    if predictor is not None:
        names = [name for name in suite.names if name != SEARCH]
        predicted = {name: _predict(suite, series, name, runs[name], predictor) for name in names}
    report: SuiteReport = {
        "autoscaling": search,
        "hardware": hardware,
        "sizes": asdict(suite.sizes),
        "model": suite.model,
        "runs": {name: [str(run) for run in trials] for name, trials in runs.items()},
        "skipped": suite.skipped,
        "ranking": _report_runs(runs, series),
        "prediction": None if predictor is None else predictor.row(),
        "predicted": predicted,
    }
    (series.directory / "scenarios.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def _run_scenarios(suite: Suite, series: Series, gpu_device: str) -> tuple[dict[str, list[Path]], SearchReport | None]:
    """Run all scenarios; return the runs of each, and the report of the search if there was one."""
    runs: dict[str, list[Path]] = {}
    search: SearchReport | None = None
    trials = range(1, suite.sizes.trials + 1)
    replayed = [name for name in suite.names if name != SEARCH]
    series.agenda = Agenda([f"{name}/trial_{trial}" for name in replayed for trial in trials])
    for name in suite.names:
        series.display.say(f"{name}: {SCENARIOS[name].title}")
        trace, flags = _prepare_scenario(suite, series, SCENARIOS[name], gpu_device)
        if name == SEARCH:
            search, runs[name] = _run_search(suite, series, trace, flags)
            series.display.say(search["result"]["text"])
        else:
            flags = _limit_trial(flags, suite)
            runs[name] = [series.replay(f"{name}/trial_{trial}", trace, flags) for trial in trials]
    return runs, search


def _predict(
    suite: Suite,
    series: Series,
    name: str,
    trials: Sequence[Path],
    predictor: Predictor,
) -> PredictedScenario:
    """Predict a trial of a scenario; say why if the profile does not allow it.

    Args:
        suite: of the scenario.
        series: makes the prediction.
        name: of the scenario.
        trials: its measured runs.
        predictor: has the profile.

    Raises:
        ChildFailedError: a prediction failed for another reason.
    """
    rates = [children.summarise_run(run, series.display)[_RATE] for run in trials]
    row: PredictedScenario = {
        "run": None,
        "measured": fmean(rates) if rates and None not in rates else None,
        "tok_s": None,
        "low": None,
        "high": None,
        "why": None,
    }
    missing = [tier for tier in SCENARIOS[name].tiers if tier not in predictor.profile.tiers]
    if missing:
        return {**row, "why": f"the profile has no {missing[0]} tier"}
    trace, flags = _prepare_scenario(suite, series, SCENARIOS[name], None)
    flags = _limit_trial(flags, suite)
    try:
        run = series.replay(f"{name}/predicted", trace, flags, predictor)
    except ChildFailedError as error:
        if error.exit_code != InputError.exit_code:
            raise
        return {**row, "why": f"outside the profile: see {name}/log-predicted.txt"}
    summary = children.summarise_run(run, series.display)
    low, high = (summary["intervals"] or {}).get(_RATE, (None, None))
    return {**row, "run": str(run), "tok_s": summary[_RATE], "low": low, "high": high}


def _limit_trial(flags: tuple[str, ...], suite: Suite) -> tuple[str, ...]:
    """Return the flags of a trial, which ends after the suite's time."""
    return (*flags, "--duration", f"{suite.sizes.trial_s:g}")


def _prepare_scenario(
    suite: Suite, series: Series, scenario: Scenario, gpu_device: str | None
) -> tuple[Path, tuple[str, ...]]:
    """Make the trace of a scenario, and return it with flags of `replayer run`.

    Args:
        suite: of the scenario.
        series: makes the trace, unless it exists.
        scenario: to run.
        gpu_device: by PyTorch's name; None: the flags are for a prediction.
    """
    settings = RECIPES[scenario.recipe](suite.sizes) | {"replay.model": suite.model}
    words = [f"{key}={value}" for key, value in settings.items()]
    trace = series.make_trace(scenario.recipe, None, words)
    flags = scenario.flags(suite.sizes, _count_stored_bytes(trace, suite.model), suite.hardware)
    if gpu_device is not None:
        flags = flags | {"gpu_device": gpu_device}
    return trace, tuple(word for name, value in flags.items() for word in flag_words(name, value))


def _count_stored_bytes(path: Path, model: str) -> int:
    """Return the bytes that a trace stores on tiers without a limit."""
    options = PlanOptions(models.find_model(model).sizes("fp16", 1), (Decimal(0), Decimal(0), None))
    return int(Plan(Trace(path), options).simulate().peak_bytes.nvme or 0)


def _run_search(suite: Suite, parent: Series, trace: Path, flags: tuple[str, ...]) -> tuple[SearchReport, list[Path]]:
    """Search for capacity in about a dozen replays; return its report and the answer's runs."""
    duration_s = max(1.0, suite.sizes.seconds / 20)
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
    steps: list[Step] = []
    directory = parent.directory / SEARCH
    with Series(directory, settings.record(), parent.cache, display=parent.display) as series:
        metric = describe_metric(settings, parent.display)
        report = autoscale(settings, metric, series, steps.append)
    users = report["result"]["users"]
    rows = [row for row in report["autoscaling_stats"] if row["users"] == users]
    return report, [Path(run) for row in rows for run in row["runs"]]


def _report_runs(runs: dict[str, list[Path]], series: Series) -> list[RankedScenario]:
    """Write report.html over all runs, and return the ranking of the tier scenarios."""
    words = [str(run) for trials in runs.values() for run in trials]
    if not words:  # only a search that found no answer
        return []
    if BASELINE in runs:
        words += ["--baseline", str(runs[BASELINE][0])]
    children.write_page(*words, directory=series.directory, display=series.display)
    content = children.run_analysis("report", *words, "--format", "json", display=series.display)
    ranking: list[RankedScenario] = json.loads(content).get("ranking", [])
    return ranking
