"""Tiny traces, and what `diagnose` finds in their plans."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.counts import Minutes, PlanCounts
from replayer.planning.plan import Plan, PlanOptions
from replayer.questions.evidence import Finding, PlanEvidence
from replayer.questions.why import diagnose
from tests.support import traces
from tracegen.schema import Columns

# A tier that gets a copy at once, and gives one back at a hit
COPIES = {"down": "on-store", "up": "copy"}


def trace(requests: Iterable[Sequence[str]], tokens: int = 10, **changes: Sequence[int]) -> Columns:
    """A trace of these requests; an op is its kind and its key, as in `w3`, and has so many tokens."""
    steps: list[traces.Step] = []
    numbers: list[int] = []
    for number, ops in enumerate(requests):
        steps += [(op[0], int(op[1:]), tokens) for op in ops]
        numbers += [number] * len(ops)
    return traces.columns(steps, numbers, **changes)


def loop(keys: int, rounds: int) -> list[list[str]]:
    """Requests that write the keys one by one, then read them in turn, again and again."""
    return [[f"w{key}"] for key in range(keys)] + [[f"r{key}"] for _ in range(rounds) for key in range(keys)]


def plan_evidence(
    batch: Columns, rules: Arrangement | Mapping[str, object], gpu: int = 0, cpu: int = 0, nvme: int | None = 0
) -> PlanEvidence:
    """The evidence of a plan for tiers of so many bytes; a token takes one."""
    drive = None if nvme is None else Decimal(nvme) / 2**30
    sizes = (Decimal(gpu) / 2**30, Decimal(cpu) / 2**30, drive)
    arrangement = rules if isinstance(rules, Arrangement) else make_arrangement("case", rules)
    options = PlanOptions(TokenBytes(1), sizes, headroom=Decimal(1), arrangement=arrangement)
    plan = Plan(traces.Held(batch), options)
    return PlanEvidence(plan, plan.count(PlanCounts(plan.workload, Minutes(plan.workload))))


def found(
    batch: Columns, rules: Arrangement | Mapping[str, object], gpu: int = 0, cpu: int = 0, nvme: int | None = 0
) -> dict[str, Finding]:
    """The findings by cause."""
    return {finding.cause: finding for finding in diagnose(plan_evidence(batch, rules, gpu, cpu, nvme))}
