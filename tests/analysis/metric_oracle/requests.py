"""The requests of a log and their times."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.analysis.metric_oracle.arithmetic import grouped, size_of, total, union_ns
from tests.analysis.metric_oracle.facts import Facts, Row, Rows
from tests.analysis.metric_oracle.rows import is_for_others, is_ok, planned_ns, waited_ns


@dataclass
class Request:
    """A request's own rows; `caused` are the evictions and copies that it made for others.

    `opened` is what run.json says of a request that is not done, which had reached `cut_ns` if not more.
    """

    own: Rows
    caused: Rows
    opened: Row | None = None
    cut_ns: int = 0

    def first(self, name: str) -> int:
        if not self.own and self.opened:
            return int(self.opened["due_ns"] if name == "due_ns" else self.cut_ns)
        return min(row[name] for row in self.own)

    def is_open(self, measure: str) -> bool:
        """Whether more time would have made the measure longer."""
        if self.opened is None:
            return False
        return {"ttfb": bool(self.opened["in_prefill"]), "lateness": not self.own}.get(measure, True)

    def union_ns(self, since: str) -> int:
        """How long since … end of any of its moves lasts."""
        return union_ns((row[since], row["end_ns"]) for row in self.own)

    def plan_wait_ns(self) -> int:
        return self.union_ns("due_ns") - self.union_ns("ready_ns")

    def cause_ns(self, cause: str) -> int:
        """The part of its plan wait that its moves' waits for a cause have in all their plan waits, in whole ns."""
        whole = sum(planned_ns(row) for row in self.own)
        mine = sum(waited_ns(row, cause) for row in self.own)
        return round(self.plan_wait_ns() * (mine / whole)) if whole else 0

    def generation_ns(self, token_ns: int) -> int:
        """new_tokens stand on an op's first row, which may be an eviction."""
        return total(self.own + self.caused, "new_tokens") * token_ns

    def done_ns(self, token_ns: int) -> int:
        """An op's generation begins when its last row has ended; the last op to be done with it ends the request."""
        tokens = {op: total(rows, "new_tokens") for op, rows in grouped(self.own + self.caused, _op).items()}
        ends = {op: max(row["end_ns"] for row in rows) for op, rows in grouped(self.own, _op).items()}
        done = [end + tokens[op] * token_ns for op, end in ends.items()]
        return max([*done, self.cut_ns] if self.opened else done)

    def ttfb_ns(self) -> int | None:
        ends = [row["end_ns"] for row in self.own if row["phase"] == "prefill"]
        ends += [self.cut_ns] if self.is_open("ttfb") else []
        return max(ends) - self.first("due_ns") if ends else None

    def prefill_bytes(self) -> int:
        """Moved before the first token: rows of misses and bypasses name an object and move nothing."""
        return size_of(
            row
            for row in self.own
            if row["phase"] == "prefill" and is_ok(row) and row["move"] in ("hit", "promote", "store")
        )

    @property
    def qos(self) -> str:
        return str(self.own[0]["qos"] if self.own else self.opened["qos"])  # type: ignore[index]


def _op(row: Row) -> int:
    return int(row["op_id"])


def all_requests(facts: Facts) -> list[Request]:
    """Those with rows of their own, and those that never began."""
    opened = {(one["rank"], one["request_id"]): one for one in facts.unfinished or []}
    groups = grouped(facts.every, lambda row: (row["rank"], row["request_id"]))
    found = []
    for name in {**groups, **opened}:
        rows = groups.get(name, [])
        own, caused = [r for r in rows if not is_for_others(r)], [r for r in rows if is_for_others(r)]
        found.append(Request(own, caused, opened.get(name), facts.cut_ns or 0))
    return [request for request in found if request.own or request.opened]


def requests_of(facts: Facts) -> list[Request]:
    """Those that count: they were due inside the window."""
    return [one for one in all_requests(facts) if _counts(facts, one)]


def _counts(facts: Facts, one: Request) -> bool:
    is_warm = any(row["warmup"] for row in one.own + one.caused)
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
    begin, end = facts.window or (facts.first_ns, facts.last_ns)
    return [one for one in requests if one.first("due_ns") < min(firsts)] if 2 * min(firsts) >= begin + end else []


def measures(facts: Facts, requests: list[Request]) -> dict[str, list[int]]:
    times: dict[str, Callable[[Request], int | None]] = {
        "io": lambda one: one.union_ns("start_ns"),
        "queue": lambda one: one.union_ns("ready_ns") - one.union_ns("start_ns"),
        "plan_wait": lambda one: one.plan_wait_ns(),
        "lateness": lambda one: one.first("start_ns") - one.first("due_ns"),
        "ttfb": lambda one: one.ttfb_ns(),
        "generation": lambda one: one.generation_ns(facts.token_ns),
        "e2e": lambda one: one.done_ns(facts.token_ns) - one.first("due_ns"),
    }
    found: dict[str, list[int]] = {}
    for name, time in times.items():
        is_known = facts.timed or name == "generation"
        values = map(time, complete(facts, requests, name)) if is_known else ()
        found[name] = [value for value in values if value is not None]
    return found
