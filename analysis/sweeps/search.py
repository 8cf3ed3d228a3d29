"""The answer of a search for users, from autoscale.json: how many, how sure, what was measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from analysis.doubts.predictions import describe_errors
from analysis.metrics.catalogue import CATALOGUE
from replayer.schema import drive, read_run
from tracegen.errors import InputError, ToolError, format_count
from views.answer import Answer, Axis, Chart, Column, DoubtLine, Figure, Rule, Table
from views.numbers import format_value
from views.text import list_figure

# What a sum of metrics is called.
_SUMS: Final = {"steady_nvme_read_gib_s+steady_nvme_write_gib_s": "NVMe throughput, read and written"}


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
    saturation: float
    decision: str
    runs: tuple[str, ...]


class SearchResult(msgspec.Struct, frozen=True):
    """The answer; `users` is None if too little was measured, and 0 if not even one is enough."""

    users: int | None
    sure: bool
    doubts: tuple[str, ...]


class SearchTrace(msgspec.Struct, frozen=True):
    """The trace that was replayed."""

    path: str


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
    def label(self) -> str:
        """The metric in words, without its unit."""
        return CATALOGUE[self.metric].label if self.metric in CATALOGUE else _SUMS.get(self.metric, self.metric)

    @property
    def unit(self) -> str:
        """The unit of the metric, or of the metrics that it adds."""
        metric = CATALOGUE.get(self.metric.split("+")[0])
        return "" if metric is None else metric.unit

    def choose_steps(self) -> list[SearchStep]:
        """Return the step of the answer and the first that misses the target; in mode capacity the peak."""
        known = [step for step in self.steps if step.evidence and step.value is not None]
        if self.mode == "capacity":
            return [max(known, key=lambda step: step.value or 0.0)] if known else []
        # Steps of too few samples say nothing about the target.
        sign = 1 if self.target_is == "at_least" else -1
        missing = [step for step in known if sign * (step.value or 0.0) < sign * (self.target or 0.0)]
        return [*(step for step in self.steps if step.users == self.result.users), *missing[:1]]


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
    result = search.result
    note = "" if result.sure else "not sure"
    return Answer(
        kicker=f"kv-tier-bench report of a search in {format_count(len(search.steps), 'step')}",
        title=title or f"{Path(search.trace.path).name}: how many users?",
        subject=list(_list_subject(search, path.parent)),
        state="PREDICTED" if search.prediction else "SURE" if result.sure else "NOT SURE",
        tone="good" if result.sure and not search.prediction else "plain",
        sentence=compose_search_sentence(search),
        figures=[
            Figure(name="users", label="users", value=result.users, note=note),
            *(_make_figure(search, step) for step in search.choose_steps()),
        ],
        tables=[_tabulate_steps(search)],
        charts=list(_list_charts(search)),
        doubts=list(_list_doubts(search)),
        source=path.name,
        data={"search": msgspec.json.decode(path.read_bytes())},
    )


def compose_search_sentence(search: SearchContent) -> str:
    """Say how many users, and why not more."""
    users = search.result.users
    bound = "at least" if search.target_is == "at_least" else "at most"
    goal = f"the target of {bound} {format_value(search.target, search.unit)}"
    if search.mode == "capacity":
        goal = f"{search.target_saturation or 1:.0%} of the peak"
    answer = f"{format_count(users or 0, 'user')} for {goal}"
    if users is None:
        answer = f"Too little was measured to say how many users reach {goal}"
    for step in search.choose_steps():
        _, value, note = list_figure(_make_figure(search, step))
        answer += f"; {format_count(step.users, 'user')} {value} ({note})"
    more = " No more users were tried." if users == search.steps[-1].users else ""
    return f"{answer}.{more} Judged by: {search.label}."


def _make_figure(search: SearchContent, step: SearchStep) -> Figure:
    low, high = step.interval or (None, None)
    return Figure(
        name=search.metric,
        label=f"{search.label}, {format_count(step.users, 'user')}",
        value=step.value,
        unit=search.unit,
        low=low,
        high=high,
        note="predicted" if search.prediction else format_count(step.trials, "trial"),
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
    """Return processor and drive of the last replay; empty if the record was copied without its runs."""
    try:
        info = read_run(folder.joinpath(*Path(search.autoscaling_stats[-1].runs[-1]).parts[-2:]))
    except (ToolError, OSError, IndexError):
        return ""
    machine = info.machine
    cores = format_count(machine.cores, "core") if machine.cores else ""
    return ", ".join(filter(None, (machine.cpu, cores, drive(machine.storage) if machine.storage else "")))


def _tabulate_steps(search: SearchContent) -> Table:
    """Return the steps, by users."""
    unit = search.unit
    judged = Column(f"{search.label}, {unit or 'value'}", unit)
    return Table(
        name="steps",
        title="Steps by users",
        columns=[
            *(Column("users"), Column("trials"), judged, Column("from", unit), Column("to", unit), Column("samples")),
            *(Column("NVMe GiB/s"), Column("NVMe read P95, ms"), Column("busy", "share"), Column("next")),
        ],
        rows=[
            [
                *(step.users, step.trials, step.value, *(step.interval or (None, None)), step.n),
                *(step.throughput_gib_s, step.p95_ms, step.saturation),
                step.decision if step.evidence else f"{step.decision}: too few samples",
            ]
            for step in search.steps
        ],
        marked=frozenset(at for at, step in enumerate(search.steps) if step.users == search.result.users),
    )


def _list_charts(search: SearchContent) -> Iterator[Chart]:
    """Yield the chart of the metric against users; with one step there is none."""
    rows = [
        (step.users, step.value, *(step.interval or (None, None)), not step.evidence, search.label)
        for step in search.steps
        if step.value is not None
    ]
    if len(rows) < 2:
        return
    numbers = dict.fromkeys(("x", "y", "low", "high"), pl.Float64)
    answer = [Rule(label="answer", x=search.result.users)] if search.result.users else []
    target = [] if search.target is None else [Rule(label="target", y=search.target)]
    predicted = " Predicted, not measured." if search.prediction else ""
    yield Chart(
        name="value",
        title=f"{search.label}, against users",
        caption=f"Each point is the mean of a step's trials; hollow: too few samples.{predicted}",
        kind="lines",
        rows=pl.DataFrame(rows, {**numbers, "hollow": pl.Boolean, "series": pl.String}, orient="row"),
        x=Axis(title="users", is_log=True, ticks=[step.users for step in search.steps]),
        y=Axis(title=search.unit or "value", is_share=search.unit == "share"),
        dashed=frozenset([search.label] if search.prediction else []),
        rules=[*answer, *target],
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
