"""The requests of a log and their times."""

from dataclasses import dataclass
from typing import Any

from tests.analysis.metric_oracle.arithmetic import grouped, size_of, total, union_ns
from tests.analysis.metric_oracle.facts import Facts, Rows
from tests.analysis.metric_oracle.rows import is_for_others, is_ok, planned_ns, waited_ns


@dataclass
class Request:
    """A request's own rows; `caused` are the evictions and copies that it made for others."""

    own: Rows
    caused: Rows

    def first(self, name: str) -> int:
        return min(row[name] for row in self.own)

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
        return max(end + tokens[op] * token_ns for op, end in ends.items())

    def ttfb_ns(self) -> int | None:
        ends = [row["end_ns"] for row in self.own if row["phase"] == "prefill"]
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
        return str(self.own[0]["qos"])


def _op(row: dict[str, Any]) -> int:
    return int(row["op_id"])


def requests_of(facts: Facts) -> list[Request]:
    groups = grouped(facts.rows, lambda row: (row["rank"], row["request_id"]))
    found = [
        Request([r for r in rows if not is_for_others(r)], [r for r in rows if is_for_others(r)])
        for rows in groups.values()
    ]
    return [request for request in found if request.own]


def measures(facts: Facts, requests: list[Request]) -> dict[str, list[int]]:
    timed = {
        "io": [one.union_ns("start_ns") for one in requests],
        "queue": [one.union_ns("ready_ns") - one.union_ns("start_ns") for one in requests],
        "plan_wait": [one.plan_wait_ns() for one in requests],
        "lateness": [one.first("start_ns") - one.first("due_ns") for one in requests],
        "ttfb": [ttfb for one in requests if (ttfb := one.ttfb_ns()) is not None],
        "generation": [one.generation_ns(facts.token_ns) for one in requests],
        "e2e": [one.done_ns(facts.token_ns) - one.first("due_ns") for one in requests],
    }
    return {name: values if facts.timed or name == "generation" else [] for name, values in timed.items()}
