"""The table of checks, and what they find in a plan."""

from collections.abc import Callable, Iterator
from typing import Final

from replayer.diagnosis import rule_checks, size_checks
from replayer.diagnosis.evidence import PlanEvidence
from replayer.diagnosis.finding import Finding

Check = Callable[[PlanEvidence], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    size_checks.check_reuse,
    size_checks.check_larger,
    size_checks.check_prefixes,
    size_checks.check_objects,
    size_checks.check_unused,
    rule_checks.check_limit_in_flight,
    rule_checks.check_fetch_tokens,
    rule_checks.check_heads,
    rule_checks.check_tails,
    rule_checks.check_admission,
    rule_checks.check_table,
    rule_checks.check_on_touch,
    rule_checks.check_expiry,
    rule_checks.check_quota,
    rule_checks.check_pins,
    rule_checks.check_watermark,
    rule_checks.check_single_uses,
)
"""A line per check, in the order in which findings are shown; docs/why.md describes each."""


def diagnose(evidence: PlanEvidence) -> list[Finding]:
    """Return the reasons why tiers bring little; none if all is well, or nothing is prompted."""
    if not evidence.count("prompt_tokens"):
        return []
    if not evidence.reuse.reused_tokens:
        return list(size_checks.check_reuse(evidence))
    findings = [finding for check in CHECKS for finding in check(evidence)]
    for last in (size_checks.check_room, size_checks.check_unread):
        findings += last(evidence, findings)
    return findings
