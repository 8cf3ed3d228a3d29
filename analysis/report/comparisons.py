"""Systems compared, the spread of trials, and predictions beside measured runs."""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl
from msgspec import structs

from analysis.comparison.answer import list_rows, tabulate_rows
from analysis.comparison.compare import Comparison
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.matching import group_trials
from analysis.comparison.predictions import ACCEPTED, COLUMNS, OF_DEVICES, PredictedPair, format_error, make_pair
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import describe_verdict, format_span
from analysis.comparison.trials import find_fault
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import CHARTED, heading
from analysis.report.data import DRAWN, Gathered
from analysis.summary.run_summary import Summary
from views.answer import Axis, Chart, Rule, Table
from views.numbers import format_value
from views.sentences import say_values

COMPARISON: Final = "Comparison at equal work"
_WORDS: Final = {
    "wall_clock_tok_s": "tokens/s",
    "ttfb_p95_ms": "the P95 of the storage part of TTFT",
}
"""The metrics that the sentence names."""


_READING: Final = (
    "The dot is the ratio of the geometric means of trials, turned so that right is better, and the"
    " bar its 95% interval: a bar that touches the line at 1 shows no difference. Of several metrics"
    " one is called different only after Holm’s correction for their number; equal work is judged by"
    " itself."
)
_LEAST_REACH: Final = 0.01
"""The axis reaches at least this far from the mean, so that equal trials do not look unequal."""


def compare_in_charts(comparison: Comparison) -> tuple[list[Chart], list[Table]]:
    """Return the forest of ratios, and the values behind it; empty without ratios."""
    values = structs.replace(tabulate_rows(comparison), section=COMPARISON)
    if not values.rows and not values.notes:  # the sentence says why a single pair is not compared
        return [], []
    rows = [(row.label, row.ratio) for row in list_rows(comparison) if row.ratio.better and row.ratio.ratio is not None]
    if not rows:
        return [], [values]
    name = comparison.compared[0].name if len(comparison.compared) == 1 else "system"
    tones = {
        f"{name} is better": "cpu",
        f"{comparison.baseline} is better": "nvme",
        "no difference or no verdict": "muted",
    }
    marks = []
    for label, ratio in rows:
        at, low, high = turn(ratio)
        tone = 2 if ratio.verdict != "apart" else int(ratio.winner != ratio.a)
        text = format_span(ratio)
        note = f"{label}: {text}: {describe_verdict(ratio)}"
        marks.append(
            {"y": label, "x": at, "low": low, "high": high, "series": [*tones][tone], "text": text, "note": note}
        )
    forest = Chart(
        name="sides",
        title=values.title,
        caption=_READING,
        kind="intervals",
        rows=pl.DataFrame(marks, infer_schema_length=None),
        x=Axis(title=f"◀ {comparison.baseline} better    |    {name} better ▶", is_ratio=True),
        y=Axis(title="", order=[label for label, _ in rows]),
        series=[*tones],
        colours=tones,
        rules=[Rule(label="1", x=1.0)],
        section=COMPARISON,
    )
    return [forest], [values]


def turn(ratio: Ratio) -> tuple[float | None, float | None, float | None]:
    """Return how many times better a ratio and its ends are: inverses if lower values are better."""
    ends = (ratio.ratio, ratio.low, ratio.high)
    if ratio.better != "lower":
        return ends
    at, high, low = (end and 1 / end for end in ends)
    return at, low, high


def draw_spread(data: Gathered) -> Iterator[Chart]:
    """Yield how far valid trials are from the mean of their system, if a system has several."""
    rows = pl.DataFrame([*_list_deviations(data)], infer_schema_length=None)
    if rows.is_empty():
        return
    if rows["system"].n_unique() == 1:
        rows = rows.with_columns(y="metric", series="system")
    else:
        rows = rows.with_columns(panel="metric", y="system", series="system")
    # The mean stays in the middle, so that both directions look alike.
    reach = 1.1 * max(_LEAST_REACH, float(rows["x"].abs().max()))  # type: ignore[arg-type]
    yield Chart(
        name="trials",
        title="Spread of trials",
        caption="How well trials of one system repeat: each point is a valid trial, as its distance"
        " from the mean of its system. The bar is the 95% interval of the mean, the number at the"
        " right the mean with half of that interval.",
        kind="intervals",
        rows=rows,
        x=Axis(title="distance from the mean", is_share=True, domain=(-reach, reach)),
        y=Axis(title=""),
        series=[*data.trials],
        rules=[Rule(label="mean", x=0.0)],
        section="Trials",
    )


def _list_deviations(data: Gathered) -> Iterator[dict[str, object]]:
    for metric in CHARTED:
        unit = describe(metric).unit
        for system in [*data.trials][:DRAWN]:
            trials = [run for run in data.trials[system] if run.summary.is_valid]
            stats = summarise_metric(metric, [run.summary for run in trials])
            if stats.n < 2 or not stats.mean or stats.low is None or stats.high is None:
                continue
            low, high = stats.low / stats.mean - 1, stats.high / stats.mean - 1
            text = f"{format_value(stats.mean, unit)} ±{(high - low) / 2:.1%}"
            bar = {"low": low, "high": high, "text": text}
            for number, run in enumerate(trials):
                value = run.summary.metrics.get(metric)
                if value is not None:
                    off = value / stats.mean - 1
                    note = f"{run.name}: {format_value(value, unit)}, {off:+.1%}"
                    place = {"metric": heading(metric), "system": system, "x": off, "note": note}
                    yield place if number else place | bar


def find_predicted(data: Gathered) -> list[PredictedPair]:
    """Find the predictions that have measured trials of their work in the report.

    Conditions of tiers may differ: a prediction has them from its profile.
    """
    measured = [
        run for run in data.runs if run.summary.prediction is None and not find_fault(run.run, run.summary, ACCEPTED)
    ]
    groups = group_trials(measured, OF_DEVICES)
    pairs = []
    for run in data.runs:
        if run.summary.prediction is None:
            continue
        (key,) = group_trials([run], OF_DEVICES)
        trials = [trial for trial in groups.get(key, ()) if _is_same_plan(trial.summary, run.summary)]
        pair = make_pair(run.system, trials, run, COLUMNS)
        if any(one.error is not None for one in pair.errors.values()):
            pairs.append(pair)
    return pairs


def _is_same_plan(measured: Summary, predicted: Summary) -> bool:
    """Return whether two runs executed one plan; runs that were cut executed parts of it."""
    one, other = measured.provenance, predicted.provenance
    return one.is_cut or other.is_cut or one.plan_fingerprint == other.plan_fingerprint


def describe_predicted(pairs: Sequence[PredictedPair]) -> str:
    """Describe the errors of predictions; empty without measured trials beside one."""
    said = []
    for pair in pairs:
        errors = {name: one.error for name, one in pair.errors.items() if one.error is not None}
        most = f"no metric of {len(errors)} is off by more than {{}}"
        named = [
            (f"the prediction {pair.name} is off by {{}} in {words}", format_error(errors.get(name)))
            for name, words in _WORDS.items()
            if name in errors
        ]
        said.append(say_values([*named, (most, f"{max(map(abs, errors.values())):.1%}")]))
    return " ".join(said)
