"""Why does a tier bring little? The causes found in a plan, and their answer."""

from collections.abc import Mapping, Sequence

import msgspec

from replayer.questions.causes import CAUSES, REUSE_CAUSES
from replayer.questions.evidence import MORE, Finding, PlanEvidence
from replayer.questions.plan import describe_plan, list_hit_rates
from replayer.record.columns import TIERS
from views.answer import Answer, Cell, Column, Table


def diagnose(evidence: PlanEvidence) -> list[Finding]:
    """Return the reasons why tiers bring little; none if all is well, or nothing is prompted."""
    found: list[Finding] = []
    if not evidence.count("prompt_tokens"):
        return found
    for cause in REUSE_CAUSES + (CAUSES if evidence.reuse.reused_tokens else ()):
        found += cause.find(evidence, found)
    return found


def answer_why(
    evidence: PlanEvidence,
    findings: Sequence[Finding],
    model: str,
    fingerprint: str,
    flags: Mapping[str, str],
) -> Answer:
    """Return the reasons why tiers bring little.

    Args:
        evidence: the plan, made.
        findings: in it.
        model: its name.
        fingerprint: of the plan.
        flags: of the command, by setting.
    """
    hits = {tier: evidence.count(f"hits_{tier}") for tier in TIERS}
    each = ", ".join(f"{hits[tier]:,} in {tier}" for tier in evidence.tiers())
    data = {
        "trace_fingerprint": evidence.plan.trace.metadata.fingerprint,
        "plan_fingerprint": fingerprint,
        "reads": evidence.reads,
        "hits": hits,
        "hit_rate_tokens": evidence.cell["hit_rate_tokens"],
    }
    return add_findings(
        Answer(
            title=f"Why a tier of {evidence.plan.trace.path} brings little",
            sentence=_conclude(evidence, findings),
            subject=[*describe_plan(evidence, model), f"{evidence.reads:,} reads; hits: {each}"],
            figures=list_hit_rates(evidence),
            source="a plan, without I/O",
            data=data,
        ),
        findings,
        flags,
    )


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
