"""The answer of a search for users, from autoscale.json: how many, how sure, what was measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from analysis.doubts.predictions import describe_errors
from analysis.metrics.catalogue import CATALOGUE
from replayer.schema import Machine, drive, read_run
from tracegen.errors import InputError, ToolError, format_count
from views.answer import Answer, Axis, Chart, Column, DoubtLine, Figure, Rule, Table
from views.numbers import format_value
from views.text import list_figure

_SUMS: Final = {
    "steady_nvme_read_gib_s+steady_nvme_write_gib_s": "NVMe throughput, read and written",
}
"""What a sum of metrics is called."""


class SearchStep(msgspec.Struct, frozen=True):
    """A number of users, and what its replays measured."""

    users: int
    trials: int
    value: float | None
    interval: tuple[float, float] | None
    n: int | None
    evidence: bool
    throughput_gib_s: float | None
    p95_ms: float | None
    p95_n: int
    saturation: float
    decision: str
    runs: tuple[str, ...]


class SearchResult(msgspec.Struct, frozen=True):
    """The answer; `users` is None if too little was measured, and 0 if not even one is enough."""

    users: int | None
    sure: bool
    peak: float | None
    doubts: tuple[str, ...]


class SearchTrace(msgspec.Struct, frozen=True):
    """The trace that was replayed."""

    path: str
    fingerprint: str


class SearchProfile(msgspec.Struct, frozen=True):
    """The profile that the replays were predicted from."""

    profile: str
    kind: str


class SearchContent(msgspec.Struct, frozen=True):
    """The part of autoscale.json that a report needs."""

    mode: Literal["qos", "capacity"]
    metric: str
    target: float | None
    target_is: Literal["at_most", "at_least"] | None
    target_saturation: float | None
    trace: SearchTrace
    flags: tuple[str, ...]
    duration_s: float
    prediction: SearchProfile | None
    autoscaling_stats: tuple[SearchStep, ...]
    result: SearchResult
    warnings: tuple[DoubtLine, ...]

    @property
    def steps(self) -> list[SearchStep]:
        """The steps, by users."""
        return sorted(self.autoscaling_stats, key=lambda step: step.users)

    @property
    def frame(self) -> pl.DataFrame:
        """The steps as a table, with the ends of their intervals as `low` and `high`."""
        types = {"interval": pl.List(pl.Float64)}
        plain = msgspec.to_builtins(self.steps)
        steps = pl.DataFrame(plain, schema_overrides=types, infer_schema_length=None)
        ends = {name: pl.col("interval").list.get(at) for at, name in enumerate(("low", "high"))}
        return steps.with_columns(**ends)

    @property
    def label(self) -> str:
        """The metric in words, without its unit."""
        if self.metric in CATALOGUE:
            return CATALOGUE[self.metric].label
        return _SUMS.get(self.metric, self.metric)

    @property
    def unit(self) -> str:
        """The unit of the metric, or of the metrics that it adds."""
        metric = CATALOGUE.get(self.metric.split("+")[0])
        return "" if metric is None else metric.unit

    def find_step(self, users: int | None) -> SearchStep | None:
        """Return the step with a number of users; None if there is none."""
        return next((step for step in self.steps if step.users == users), None)

    def find_miss(self) -> SearchStep | None:
        """Return the step with the fewest users that are known to miss the target."""
        sign = 1 if self.target_is == "at_least" else -1
        for step in self.steps:
            is_known = step.evidence and step.value is not None and self.target is not None
            if is_known and sign * step.value < sign * self.target:  # type: ignore[operator]
                return step
        return None

    def find_peak(self) -> SearchStep | None:
        """Return the step with the highest value of those that are evidence."""
        measured = [step for step in self.steps if step.evidence and step.value is not None]
        return max(measured, key=lambda step: step.value or 0.0, default=None)


def open_search(path: Path) -> SearchContent:
    """Read what `replayer autoscale` recorded.

    Raises:
        InputError: the file is no such record, or the search took no step.
    """
    try:
        content = msgspec.json.decode(path.read_bytes(), type=SearchContent)
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"is not a record that `replayer autoscale` wrote: {error}"
        raise InputError(problem, "name its autoscale.json", subject=path) from None
    if not content.autoscaling_stats:
        raise InputError("its search took no step", "repeat the search", subject=path)
    return content


def answer_search(path: Path, title: str = "") -> Answer:
    """Make the answer of a recorded search; its title is `title`, or one from the trace.

    Raises:
        InputError: the file is no record of a search, or the search took no step.
    """
    search = open_search(path)
    result, is_qos = search.result, search.mode == "qos"
    shown = (search.find_step(result.users), search.find_miss()) if is_qos else (search.find_peak(),)
    return Answer(
        kicker=f"kv-tier-bench report of a search in {format_count(len(search.steps), 'step')}",
        title=title or f"{Path(search.trace.path).name}: how many users?",
        subject=list(_list_subject(search, path.parent)),
        state="PREDICTED" if search.prediction else "SURE" if result.sure else "NOT SURE",
        tone="good" if result.sure and not search.prediction else "plain",
        sentence=compose_search_sentence(search),
        figures=[
            Figure(
                name="users",
                label="users",
                value=result.users,
                note="" if result.sure else "not sure",
            ),
            *(_make_figure(search, step) for step in shown if step is not None),
        ],
        tables=[_tabulate_steps(search)],
        charts=_list_charts(search),
        doubts=list(_list_doubts(search)),
        source=path.name,
        data={"search": msgspec.json.decode(path.read_bytes())},
    )


def compose_search_sentence(search: SearchContent) -> str:
    """Say how many users, and why not more."""
    users, peak = search.result.users, search.find_peak()
    bound = "at least" if search.target_is == "at_least" else "at most"
    goal = f"the target of {bound} {format_value(search.target, search.unit)}"
    steps = [search.find_step(users), search.find_miss()]
    if search.mode == "capacity":
        goal = f"{search.target_saturation or 1:.0%} of the peak"
        steps = [peak]
    measured = [_describe_step(search, step) for step in steps if step is not None]
    answer = f"{format_count(users or 0, 'user')} for {goal}"
    if users is None:
        answer = f"Too little was measured to say how many users reach {goal}"
    more = " No more users were tried." if users == search.steps[-1].users else ""
    return f"{'; '.join((answer, *measured))}.{more} Judged by: {search.label}."


def _describe_step(search: SearchContent, step: SearchStep) -> str:
    """Return the value of a step with its interval, as of its figure."""
    _, value, note = list_figure(_make_figure(search, step))
    return f"{format_count(step.users, 'user')} {value} ({note})"


def _make_figure(search: SearchContent, step: SearchStep) -> Figure:
    low, high = step.interval or (None, None)
    label = f"{search.label}, {format_count(step.users, 'user')}"
    basis = "predicted" if search.prediction else format_count(step.trials, "trial")
    return Figure(
        name=search.metric,
        label=label,
        value=step.value,
        unit=search.unit,
        low=low,
        high=high,
        note=basis,
    )


def _list_subject(search: SearchContent, folder: Path) -> Iterator[str]:
    if search.prediction is not None:
        yield f"predicted from the profile {search.prediction.profile}"
    elif machine := _describe_machine(search, folder):
        yield machine
    users = ", ".join(f"{step.users:,}" for step in search.steps)
    yield f"{search.trace.path}; {users} users in a closed loop, {search.duration_s:g} s each"
    yield f"flags: {' '.join(search.flags)}"


def _describe_machine(search: SearchContent, folder: Path) -> str:
    """Return processor and drive of the replays; empty if their directories are gone."""
    for run in search.autoscaling_stats[-1].runs:
        try:
            info = read_run(folder.joinpath(*Path(run).parts[-2:]))
        except (ToolError, OSError):
            continue
        machine = info.machine or Machine()
        cores = f"{machine.cores} cores" if machine.cores else ""
        storage = drive(info.storage) if info.storage else ""
        return ", ".join(filter(None, (machine.cpu, cores, storage)))
    return ""


def _tabulate_steps(search: SearchContent) -> Table:
    """Return the steps, by users."""
    unit, few = search.unit, "too few samples"
    columns = {
        "users": Column("users"),
        "trials": Column("trials"),
        "value": Column(f"{search.label}, {unit or 'value'}", unit),
        "low": Column("from", unit),
        "high": Column("to", unit),
        "n": Column("samples"),
        "throughput_gib_s": Column("NVMe GiB/s"),
        "p95_ms": Column("NVMe read P95, ms"),
        "saturation": Column("busy", "share"),
        "decision": Column("next"),
    }
    decision = pl.when("evidence").then("decision").otherwise(pl.col("decision") + f": {few}")
    return Table(
        name="steps",
        title="Steps by users",
        columns=[*columns.values()],
        rows=search.frame.with_columns(decision.alias("decision")).select(*columns).rows(),
        marked=frozenset(at for at, step in enumerate(search.steps) if step.users == search.result.users),
    )


def _list_charts(search: SearchContent) -> list[Chart]:
    """Return the metric of the search, then throughput and latency of the nvme tier."""
    units = {"value": (search.label, search.unit or "value")}
    if "nvme" not in search.metric:
        units["throughput_gib_s"] = ("NVMe throughput, read and written", "GiB/s")
    if search.metric != "nvme_read_p95_ms":
        units["p95_ms"] = ("NVMe reads, P95", "ms")
    charts = [_make_chart(search, column, *named) for column, named in units.items()]
    return [chart for chart in charts if chart.rows.height > 1]


def _make_chart(search: SearchContent, column: str, title: str, unit: str) -> Chart:
    rules = [Rule(label="answer", x=search.result.users)] if search.result.users else []
    columns = {"x": pl.col("users"), "y": pl.col(column), "series": pl.lit(title)}
    if column == "value":
        columns |= {"low": pl.col("low"), "high": pl.col("high"), "hollow": ~pl.col("evidence")}
        rules += [] if search.target is None else [Rule(label="target", y=search.target)]
    note = pl.format("{} users, trials: {}", "users", "trials")
    rows = search.frame.select(**columns, note=note).drop_nulls("y")
    predicted = " Predicted, not measured." if search.prediction else ""
    return Chart(
        name=column,
        title=f"{title}, against users",
        caption=f"Each point is the mean of a step's trials; hollow: too few samples.{predicted}",
        kind="lines",
        rows=rows,
        x=Axis(title="users", is_log=True, ticks=[step.users for step in search.steps]),
        y=Axis(title=unit, is_share=unit == "share"),
        dashed=frozenset(rows["series"] if search.prediction else ()),
        rules=rules,
    )


def _list_doubts(search: SearchContent) -> Iterator[DoubtLine]:
    if search.prediction is not None:
        yield DoubtLine(
            headline="predicted, not measured",
            text=f"nothing was replayed. {describe_errors(search.prediction.kind)}",
            advice="measure the users found with `replayer autoscale` on the machine itself",
        )
    elif not search.result.sure:
        advice = "repeat the search with more trials or users, or a longer duration or trace"
        why = "; ".join(search.result.doubts)
        yield DoubtLine(headline="the answer is not sure", text=why, advice=advice)
    yield from search.warnings
