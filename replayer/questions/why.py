"""Why does a tier bring little? The causes found in a plan, and their answer."""

from collections.abc import Mapping, Sequence

import msgspec

from replayer.planning.counts import Minutes, PlanCounts, PlanSummary
from replayer.planning.plan import Look, Plan
from replayer.questions.causes import CAUSES, REUSE_CAUSES
from replayer.questions.evidence import MORE, Finding, PlanEvidence
from tracegen.progress import Advance
from views.answer import Answer, Cell, Column, Table


def diagnose(evidence: PlanEvidence) -> list[Finding]:
    """Return the reasons why tiers bring little; none if all is well, or nothing is prompted."""
    found: list[Finding] = []
    if not evidence.count("prompt_tokens"):
        return found
    # In their order: a later cause looks at the findings before it.
    for cause in REUSE_CAUSES + (CAUSES if evidence.reuse.reused_tokens else ()):
        found += cause.find(evidence, found)
    return found


def examine(
    plan: Plan, advance: Advance, looks: Sequence[Look] = ()
) -> tuple[PlanEvidence, PlanSummary, list[Finding]]:
    """Make a plan, and find why its tiers bring little.

    Args:
        plan: to be made.
        advance: takes the number of ops planned since its last call.
        looks: observers that see every stretch of the plan.
    """
    counts = PlanCounts(plan.workload, Minutes(plan.workload))
    summary = plan.simulate(advance, looks, counts)
    evidence = PlanEvidence(plan, counts, advance)
    return evidence, summary, diagnose(evidence)


def answer_why(plan: Answer, evidence: PlanEvidence, findings: Sequence[Finding], flags: Mapping[str, str]) -> Answer:
    """Return the answer of a plan with the reasons why tiers bring little.

    Args:
        plan: its answer.
        evidence: the plan, made.
        findings: in it.
        flags: of the command, by setting.
    """
    title = f"Why a tier of {evidence.plan.trace.path} brings little"
    answer = msgspec.structs.replace(plan, title=title, sentence=_conclude(evidence, findings))
    return add_findings(answer, findings, flags)


def add_findings(answer: Answer, findings: Sequence[Finding], flags: Mapping[str, str]) -> Answer:
    """Return an answer with a table of the causes, and their sentences below it."""
    texts = [finding.phrase().sentence(flags.get) for finding in findings]
    table = Table(
        title="Why a tier brings little",
        name="findings",
        columns=[Column("cause"), Column("tier"), Column("more prompt tokens hit", "share")],
        rows=list(map(_tabulate, findings)),
        notes=texts,
    )
    fields = msgspec.to_builtins(findings)
    told = [finding | {"text": text} for finding, text in zip(fields, texts, strict=True)]
    data = {**answer.data, "findings": told}
    return msgspec.structs.replace(answer, tables=[*answer.tables, table], data=data)


def _tabulate(finding: Finding) -> list[Cell]:
    more = finding.counts.get(MORE, 0) / finding.counts.get("prompt_tokens", 1)
    return [finding.cause, " ".join(finding.tiers) or "all", more]


def _conclude(evidence: PlanEvidence, findings: Sequence[Finding]) -> str:
    """Return the sentence: what hits, what could, and the cause whose remedy gains most."""
    prompt = max(evidence.count("prompt_tokens"), 1)
    hit, most = evidence.count("spared_tokens") / prompt, evidence.reuse.stored_tokens / prompt
    share = f"{hit:.1%} of prompt tokens hit, of {most:.1%} that prompts reuse."
    if not findings:
        return f"{share} No check finds a reason why a tier brings little."
    best = max(findings, key=lambda finding: finding.counts.get(MORE, 0))
    return f"{share} What costs most: {best.cause}."
