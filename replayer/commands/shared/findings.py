"""Findings on a plan as lines for a terminal and as JSON."""

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Final

import click

from replayer.diagnosis.finding import Finding
from tracegen.console.command_line import flags_of

_WIDTH: Final = 100


def render_findings(findings: Sequence[Finding]) -> list[str]:
    """Return the lines of findings, each a sentence, of at most 100 columns."""
    lines: list[str] = []
    for text in _phrase(findings):
        wrapped = textwrap.wrap(
            text,
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,  # words such as on-store are values
        )
        lines += wrapped
    return lines


def tabulate_findings(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """Return findings as `--json` has them: their fields, and the sentence."""
    texts = _phrase(findings)
    pairs = zip(findings, texts, strict=True)
    return [dataclasses.asdict(finding) | {"text": text} for finding, text in pairs]


def _phrase(findings: Sequence[Finding]) -> list[str]:
    """Return the sentence of each finding; settings become the flags of the command."""
    flags = flags_of(click.get_current_context().command)
    return [finding.phrase().sentence(flags.get) for finding in findings]
