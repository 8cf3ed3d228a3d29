"""Hits of a server beside those that a plan says it should have, and why they differ."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from analysis.assessment.server_metrics import (
    ANYWHERE,
    ASKED,
    BELOW,
    CPU,
    CPU_ROOM,
    DROPPED,
    GPU,
    GPU_ROOM,
    HELD,
    NVME,
    PREEMPTED,
    PROMPT,
    STORED,
    count_server,
)
from tracegen.errors import InputError, ToolError
from views.answer import Answer, Column, DoubtLine, Figure, Table
from views.numbers import format_number, format_value

ALL: Final = "hit in all"
# Share of the prompt tokens from which on hits differ
DIFFERENCE: Final = 0.01
# Share of the plan's prompt tokens or room from which on the server has others
OTHER: Final = 0.01
# Share of the GPU's blocks that requests hold from which on a plan in which they hold none is wrong
HELD_MUCH: Final = 0.4
_GIB: Final = 2**30


class _Order(Struct):
    kind: str


class PlannedHits(Struct):
    """The parts of `replayer plan --json` that a server is put beside; docs/waterfall.md says what they count."""

    title: str
    prompt_tokens: int
    spared_tokens_gpu: int
    spared_tokens_cpu: int
    spared_tokens_nvme: int
    write_bytes_cpu: int
    read_bytes_nvme: int
    bytes_per_token: int
    gpu_usable_bytes: int
    cpu_usable_bytes: int
    order: _Order
    preemptions: int | None = None

    def count(self) -> dict[str, float]:
        """Return the plan's counts in tokens, by the names of a server's."""
        counts: dict[str, float] = {
            GPU: self.spared_tokens_gpu,
            CPU: self.spared_tokens_cpu,
            NVME: self.spared_tokens_nvme,
            BELOW: self.spared_tokens_cpu + self.spared_tokens_nvme,
            ALL: self.spared_tokens_gpu + self.spared_tokens_cpu + self.spared_tokens_nvme,
            PROMPT: self.prompt_tokens,
            GPU_ROOM: self.gpu_usable_bytes // self.bytes_per_token,
            CPU_ROOM: self.cpu_usable_bytes // self.bytes_per_token,
            # Without what comes up from nvme
            STORED: max(0, self.write_bytes_cpu - self.read_bytes_nvme) // self.bytes_per_token,
        }
        return counts if self.preemptions is None else counts | {PREEMPTED: self.preemptions}


def read_plan(path: Path) -> PlannedHits:
    """Read what `replayer plan -o plan.json` wrote.

    Raises:
        InputError: it is something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=PlannedHits)
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"is no plan as JSON: {error}"
        raise InputError(problem, "write it with replayer plan and the output plan.json", subject=path) from None


class Comparison:
    """The counts of a plan and of a server, by name; what a server lacks was not measured.

    Attributes:
        plan: as read.
        planned: its counts.
        engine: of the server.
        served: the server's counts.
        shares: of the prompt tokens, those that should hit and those that did, by tiers as far as
            the server tells them apart.
        changes: the share that did hit less the one that should, where it was measured.
        worst: the tiers whose hits differ most; empty if none differ.
    """

    def __init__(self, plan: PlannedHits, scrapes: Sequence[Path]) -> None:
        self.plan = plan
        planned = self.planned = plan.count()
        self.engine, served = count_server(scrapes, plan.bytes_per_token)
        self.served = served
        hits = [GPU, BELOW]
        if CPU in served:
            by_tier = served[CPU] + served.get(NVME, 0)
            if served.setdefault(BELOW, by_tier) == by_tier:
                hits = [GPU, CPU, NVME] if planned[NVME] or served.get(NVME) else [GPU, CPU]
        if GPU in served and BELOW in served:
            served[ALL] = served[GPU] + served[BELOW] + served.get(ANYWHERE, 0)
        if served.get(ANYWHERE):  # of some requests the tiers are not known
            hits = []
        self.shares: dict[str, tuple[float, float | None]] = {
            name: (
                planned[name] / max(plan.prompt_tokens, 1),
                served[name] / served[PROMPT] if name in served else None,
            )
            for name in [*hits, ALL]
        }
        self.changes = {name: did - should for name, (should, did) in self.shares.items() if did is not None}
        differing = [name for name, change in self.changes.items() if abs(change) >= DIFFERENCE]
        self.worst = max(differing, key=lambda name: abs(self.changes[name]), default="")

    def tell(self, name: str) -> str:
        """Return the server's count and the plan's as a clause; empty if they are alike, or not measured."""
        planned, served = self.planned[name], self.served.get(name)
        if served is None or abs(served - planned) <= OTHER * planned:
            return ""
        return f"{name}: {served:,.0f} tokens on the server, {planned:,.0f} in the plan"


Causes = Iterator[tuple[str, ToolError]]
"""Why hits differ, as far as counts tell: the name of each cause, and its counts with the remedy."""


def find_settings(compared: Comparison) -> Causes:
    """Yield what the server was given: other prompts, other memory."""
    served = compared.served
    if told := compared.tell(PROMPT):
        problem = f"{told}; those were other requests, or another tokenizer or chat template made them"
        yield "lost ids", ToolError(problem, "send the trace's own requests, and scrape just before and after them")
    if served.get(ASKED) == 0 and compared.planned[BELOW]:
        yield "wrong capacity", ToolError("the server asked no tier below gpu", "plan with `cpu_mem_gb=0`")
    for tier, room in (("gpu", GPU_ROOM), ("cpu", CPU_ROOM)):
        if told := compared.tell(room):
            gib = format_number(served[room] * compared.plan.bytes_per_token / _GIB)
            yield "wrong capacity", ToolError(told, f"plan with `{tier}_mem_gb={gib}` and `headroom=1`")


def find_events(compared: Comparison) -> Causes:
    """Yield what happened on the server."""
    served, order = compared.served, compared.plan.order.kind
    is_held = served.get(HELD, 0) >= HELD_MUCH or served.get(PREEMPTED, 0) > 0
    if compared.worst and is_held and order != "engine":
        held, preempted = format_value(served.get(HELD), "share"), format_value(served.get(PREEMPTED))
        problem = (
            f"requests hold blocks of gpu (at a scrape: {held}, preemptions: {preempted}), and none in a plan of order"
            f" {order}"
        )
        yield "held blocks", ToolError(problem, "plan with `order=engine`")
    if dropped := [f"{name}: {served[name]:,.0f}" for name in DROPPED if served.get(name)]:
        yield "dropped stores", ToolError(", ".join(dropped), "give the tiers below gpu more room or bandwidth")


def find_fewer_stores(compared: Comparison) -> Causes:
    """Yield the cause that is left when no other is found: the server stored less."""
    told = compared.tell(STORED)
    if compared.worst and told and compared.served[STORED] < compared.planned[STORED]:
        yield "dropped stores", ToolError(told, "compare the rules by which cpu gets objects")


def answer_engine(plan: PlannedHits, scrapes: Sequence[Path], flags: Mapping[str, str]) -> Answer:
    """Return what a server hit beside a plan, tier by tier, and why they differ.

    Args:
        plan: as read.
        scrapes: files of the server's scrapes, in their order.
        flags: of `replayer plan`, by setting.
    """
    compared = Comparison(plan, scrapes)
    found = [*find_settings(compared), *find_events(compared)] or list(find_fewer_stores(compared))
    causes = [cause for cause, _error in found]
    names = [*compared.shares, *(name for name in compared.planned if name not in (GPU, CPU, NVME, BELOW, ALL))]
    return Answer(
        title=f"{compared.engine} beside a plan",
        subject=[plan.title],
        sentence=_conclude(compared, causes),
        figures=[
            Figure(name=name, label=f"prompt tokens {name}", value=did, unit="share", note=f"should be {should:.1%}")
            for name, (should, did) in compared.shares.items()
        ],
        tables=[
            _tabulate(compared, names),
            Table(
                title="Why they differ",
                name="causes",
                columns=[Column("cause"), Column("why")],
                rows=[[cause, error.sentence(flags.get)] for cause, error in found],
            ),
        ],
        doubts=list(_list_doubts(compared, names, causes)),
        source="a plan and the server's counters",
        data={"engine": compared.engine, "served": compared.served},
    )


def _tabulate(compared: Comparison, names: Sequence[str]) -> Table:
    return Table(
        title="Tokens",
        name="counts",
        columns=[Column("count"), Column("plan"), Column("server"), Column("of prompt tokens", "change")],
        rows=[[name, compared.planned[name], compared.served.get(name), compared.changes.get(name)] for name in names],
    )


def _conclude(compared: Comparison, causes: Sequence[str]) -> str:
    name = compared.worst or ALL
    should, did = compared.shares[name]
    if did is None:
        return "What the server hit was not measured."
    text = f"{did:.1%} of the server's prompt tokens {name}, and {should:.1%} should"
    if not compared.worst:
        return f"{text}: no tier differs by {DIFFERENCE:.0%} of them."
    return f"{text}. Why: {', '.join(dict.fromkeys(causes)) or 'no count tells'}."


def _list_doubts(compared: Comparison, names: Sequence[str], causes: Sequence[str]) -> Iterator[DoubtLine]:
    if missing := [name for name in (*names, HELD, PREEMPTED) if name not in compared.served]:
        text = f"not in the scrapes: {', '.join(dict.fromkeys(missing))}"
        yield DoubtLine(headline="not measured", text=text, advice="what these would explain was not looked for")
    if compared.worst and compared.plan.order.kind != "engine" and "held blocks" not in causes:
        yield DoubtLine(
            headline="held blocks not seen",
            text="no scrape saw requests hold much of gpu; they hold nothing in the plan",
            advice="scrape during the load, or plan in the order of an engine",
        )
    elif compared.worst and not causes:
        yield DoubtLine(
            headline="not explained",
            text="no count says why hits differ",
            advice="compare what else enters the ids of blocks: cache_salt, adapters",
        )
