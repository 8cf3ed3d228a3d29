"""The requests of a log and their times."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
from polars import col

from tests.analysis.metric_oracle.arithmetic import union_ns
from tests.analysis.metric_oracle.facts import Facts, Row


@dataclass
class Request:
    """A request's rows; its `own` are not the evictions and copies that it made for others.

    `opened` is what run.json says of a request that is not done, which had reached `cut_ns` if not more.
    """

    rows: pl.DataFrame
    opened: Row | None = None
    cut_ns: int = 0

    def __post_init__(self) -> None:
        self.own = self.rows.filter(~col("is_for_others"))
        self.qos = self.own["qos"][0] if len(self.own) else (self.opened or {}).get("qos")

    def first(self, name: str) -> int:
        if not len(self.own) and self.opened:
            return int(self.opened["due_ns"] if name == "due_ns" else self.cut_ns)
        return int(self.own[name].min())

    def is_open(self, measure: str) -> bool:
        """Whether more time would have made the measure longer."""
        if self.opened is None:
            return False
        return {"ttfb": bool(self.opened["in_prefill"]), "lateness": not len(self.own)}.get(measure, True)

    def plan_wait_ns(self) -> int:
        return union_ns(self.own, "due_ns") - union_ns(self.own, "ready_ns")

    def cause_ns(self, cause: str) -> int:
        """The part of its plan wait that its moves' waits for a cause have in all their plan waits, in whole ns."""
        whole = self.own["plan_ns"].sum()
        return round(self.plan_wait_ns() * (self.own[f"{cause}_wait_ns"].sum() / whole)) if whole else 0

    def generation_ns(self, token_ns: int) -> int:
        """new_tokens stand on an op's first row, which may be an eviction."""
        return int(self.rows["new_tokens"].sum()) * token_ns

    def done_ns(self, token_ns: int) -> int:
        """An op's generation begins when its last row has ended; the last op to be done with it ends the request."""
        ends = col("end_ns").filter(~col("is_for_others")).max()
        done = self.rows.group_by("op_id").agg(ends + col("new_tokens").sum() * token_ns)["end_ns"].drop_nulls()
        return max([*done, self.cut_ns] if self.opened else done)

    def ttfb_ns(self) -> int | None:
        ends = self.own.filter(phase="prefill")["end_ns"].to_list()
        ends += [self.cut_ns] if self.is_open("ttfb") else []
        return max(ends) - self.first("due_ns") if ends else None


def all_requests(facts: Facts) -> list[Request]:
    """Those with rows of their own, and those that never began."""
    opened = {(one["rank"], one["request_id"]): one for one in facts.unfinished or []}
    groups = facts.every.partition_by("rank", "request_id", as_dict=True)
    none = facts.every.clear()
    found = [Request(groups.get(name, none), opened.get(name), facts.cut_ns or 0) for name in {**groups, **opened}]
    return [request for request in found if len(request.own) or request.opened]


def requests_of(facts: Facts) -> list[Request]:
    """Those that count: they were due inside the window."""
    return [one for one in all_requests(facts) if _counts(facts, one)]


def _counts(facts: Facts, one: Request) -> bool:
    is_warm = one.rows["warmup"].any()
    if not facts.timed:
        return not is_warm
    due = one.first("due_ns")
    if facts.due_from_ns is not None:
        is_warm = due < facts.due_from_ns
    return not is_warm and (facts.cut_ns is None or due < facts.cut_ns)


def complete(facts: Facts, requests: list[Request], measure: str) -> list[Request]:
    """Those due before the first one whose measure is open; none if that one was due in the window's first half."""
    firsts = [one.first("due_ns") for one in requests if one.is_open(measure)]
    if not firsts:
        return requests
    return (
        [one for one in requests if one.first("due_ns") < min(firsts)] if 2 * min(firsts) >= sum(facts.window) else []
    )


def measures(facts: Facts, requests: list[Request]) -> dict[str, list[int]]:
    times: dict[str, Callable[[Request], int | None]] = {
        "io": lambda one: union_ns(one.own),
        "queue": lambda one: union_ns(one.own, "ready_ns") - union_ns(one.own),
        "plan_wait": Request.plan_wait_ns,
        "lateness": lambda one: one.first("start_ns") - one.first("due_ns"),
        "ttfb": Request.ttfb_ns,
        "generation": lambda one: one.generation_ns(facts.token_ns),
        "e2e": lambda one: one.done_ns(facts.token_ns) - one.first("due_ns"),
    }
    found: dict[str, list[int]] = {}
    for name, time in times.items():
        is_known = facts.timed or name == "generation"
        values = map(time, complete(facts, requests, name)) if is_known else ()
        found[name] = [value for value in values if value is not None]
    return found
