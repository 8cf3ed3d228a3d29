"""Results that vLLM's and LMCache's benchmarks write, and whether a replay did the same work."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from analysis.summary.run_summary import Summary
from replayer.schema import plain_model
from tracegen.errors import InputError
from views.answer import Cell, Column, Table

# Largest file of results that is read.
MOST_BYTES: Final = 1 << 28
# A replay matches a server's run if its output tokens per second are within ±5%.
MATCH: Final = 0.05
Number = Annotated[float, Meta(ge=0, lt=2.0**63)]


class Reference(Struct, frozen=True, kw_only=True):
    """A result of a server's benchmark in our terms; None if its file does not say.

    Attributes:
        name: the file, and the number of the result if the file has several.
        tool: the benchmark that wrote it.
        requests: number of completed requests.
        duration_s: time from the first request to the last token.
        failed: number of failed requests.
        model: name of the model.
        input_tokens: tokens of the prompts.
        generated_tokens: tokens of the answers.
        ttft_mean_ms: time to the first token, with queueing, prefill and network.
        ttft_p50_ms: median of the same.
        ttft_p99_ms: 99th percentile of the same.
    """

    name: str
    tool: str
    requests: Number
    duration_s: Number
    failed: Number = 0
    model: str | None = None
    input_tokens: Number | None = None
    generated_tokens: Number | None = None
    ttft_mean_ms: Number | None = None
    ttft_p50_ms: Number | None = None
    ttft_p99_ms: Number | None = None

    @property
    def output_tok_s(self) -> float | None:
        """Generated tokens per second of the duration."""
        if self.generated_tokens is None or not self.duration_s:
            return None
        return self.generated_tokens / self.duration_s


# Our names of fields that some releases or options of a tool leave out.
_OPTIONAL: Final = {"failed", "model", "input_tokens", "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms"}


# The tools, and the fields of their summaries by our names.
_TOOLS: Final = {
    "vllm bench serve": {
        "requests": "completed",
        "generated_tokens": "total_output_tokens",
        "duration_s": "duration",
        "failed": "failed",
        "input_tokens": "total_input_tokens",
        "model": "model_id",
        "ttft_mean_ms": "mean_ttft_ms",
        "ttft_p50_ms": "median_ttft_ms",
        "ttft_p99_ms": "p99_ttft_ms",
    },
    "lmcache bench engine": {
        "requests": "successful_requests",
        "generated_tokens": "total_output_tokens",
        "duration_s": "elapsed_time",
        "failed": "failed_requests",
        "input_tokens": "total_input_tokens",
        "model": "model",
        "ttft_mean_ms": "mean_ttft_ms",
        "ttft_p50_ms": "p50_ttft_ms",
        "ttft_p99_ms": "p99_ttft_ms",
    },
}


def read_references(path: Path) -> list[Reference]:
    """Read the results in a file; `vllm bench serve` may append several to one file.

    Raises:
        InputError: the file cannot be read, or has no known layout.
    """
    records = _read_records(path)
    for tool, fields in _TOOLS.items():
        required = {theirs for ours, theirs in fields.items() if ours not in _OPTIONAL}
        if records and all(required <= record.keys() for record in records):
            several = len(records) > 1
            names = [f"{path} #{number}" if several else f"{path}" for number in range(1, len(records) + 1)]
            return [_convert(tool, fields, record, name) for record, name in zip(records, names, strict=True)]
    raise _refuse(path, "contains no known result", f"pass a file that one of these wrote: {', '.join(_TOOLS)}")


def _convert(tool: str, fields: Mapping[str, str], record: dict[str, Any], name: str) -> Reference:
    values = {ours: record[theirs] for ours, theirs in fields.items() if record.get(theirs) is not None}
    try:
        return msgspec.convert(values | {"name": name, "tool": tool}, Reference)
    except msgspec.ValidationError as error:
        text = str(error)
        for ours, theirs in fields.items():
            text = text.replace(f"$.{ours}`", f"{theirs}`")
        raise _refuse(name, text, "write the file again") from None


def _read_records(path: Path) -> list[dict[str, Any]]:
    """Read the records of a JSON file, which may have one document on each line."""
    text = read_text(path, "references")
    try:
        records = msgspec.json.Decoder(dict[str, Any]).decode_lines(text)
    except (ValueError, RecursionError) as error:
        raise _refuse(path, f"is not JSON ({error})", "pass the tool's own file") from None
    return [_merge_sections(record) for record in records]


def read_text(path: Path, setting: str) -> str:
    """Read a file that another tool wrote.

    Raises:
        InputError: it cannot be read, is too large, or is no text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8-sig")
        problem = f"larger than {MOST_BYTES >> 20} MiB"
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or 'it is not text'})"
    raise InputError(problem, "pass the file that the tool itself wrote", subject=path, setting=setting)


def _merge_sections(record: dict[str, Any]) -> dict[str, Any]:
    """Merge the sections `config` and `results` of a record that has both."""
    config, results = record.get("config"), record.get("results")
    return config | results if isinstance(config, dict) and isinstance(results, dict) else record


def _refuse(subject: object, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=subject, setting="references")


class Match(Struct, frozen=True):
    """A replay next to a server's result.

    Attributes:
        file: name of the result.
        tool: the benchmark that wrote it.
        reasons: why the two are not comparable; empty if both did the same work, as far as they say.
        difference: our output tokens per second / theirs − 1; None if not comparable.
    """

    file: str
    tool: str
    reasons: list[str]
    difference: float | None

    @property
    def sentence(self) -> str:
        """Whether the two are comparable, and how far apart they are."""
        if self.difference is None:
            return f"NOT COMPARABLE with {self.file}: {'; '.join(self.reasons)}"
        verdict = f"differs by {self.difference:+.1%} (±{MATCH:.0%} matches)"
        if abs(self.difference) <= MATCH:
            verdict = f"matches: {self.difference:+.1%} (within ±{MATCH:.0%})"
        return f"COMPARABLE with {self.file}: output tok/s {verdict}"


def compare_with(summary: Summary, reference: Reference) -> Match:
    """Compare a replay with a server's result."""
    theirs = reference.output_tok_s
    ours = summary.metrics["wall_clock_tok_s"]
    reasons = _find_differences(summary, reference)
    if not reasons and not (ours and theirs):
        reasons = ["one of them generated nothing, or took no time"]
    difference = ours / theirs - 1 if ours and theirs and not reasons else None
    return Match(reference.name, reference.tool, reasons, difference)


def _find_differences(summary: Summary, reference: Reference) -> list[str]:
    """Find why a replay and a server's run did not do the same work."""
    model = summary.conditions.model
    reasons = [] if summary.is_valid else ["our run is not VALID"]
    if reference.model is not None and plain_model(model) != plain_model(reference.model):
        reasons.append(f"our model is {model}, theirs {reference.model}")
    if reference.failed:
        reasons.append(f"{reference.failed:,.0f} of their requests failed")
    for noun, ours, theirs in (
        ("requests", summary.metrics["requests"], reference.requests),
        ("generated tokens", summary.metrics["tokens_generated"], reference.generated_tokens),
    ):
        if ours is None or theirs is None:
            reasons.append(f"{'our' if ours is None else 'their'} {noun} are not known")
        elif ours != theirs:
            reasons.append(f"our {noun} are {ours:,}, theirs {theirs:,.0f}")
    return reasons


# Quantities of a reference: their headings, and our metrics.
_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "requests": ("requests", "requests"),
    "input_tokens": ("input tokens", ""),  # a replay does not know them: objects may be shared by prompts
    "generated_tokens": ("generated tokens", "tokens_generated"),
    "duration_s": ("duration s", "elapsed_s"),
    "output_tok_s": ("output tok/s", "wall_clock_tok_s"),
    "ttft_mean_ms": ("TTFB | TTFT mean ms *", "ttfb_mean_ms"),
    "ttft_p50_ms": ("TTFB | TTFT P50 ms *", "ttfb_p50_ms"),
    "ttft_p99_ms": ("TTFB | TTFT P99 ms *", "ttfb_p99_ms"),
}
_UNLIKE: Final = "* different quantities: ours is storage alone (TTFB), theirs includes queueing, prefill and network"


def tabulate_references(summary: Summary, references: Sequence[Reference], matches: Sequence[Match]) -> Table:
    """Make the table of a replay next to servers' results."""
    ours: list[Cell] = [summary.metrics.get(metric) for _, metric in _COLUMNS.values()]
    rows: list[list[Cell]] = [["this run", summary.conditions.model, *ours]]
    rows += [[one.tool, one.model, *(getattr(one, name) for name in _COLUMNS)] for one in references]
    return Table(
        name="references",
        title="Next to results of servers",
        columns=[Column("result"), Column("model"), *(Column(name) for name, _ in _COLUMNS.values())],
        rows=rows,
        notes=[_UNLIKE, *(match.sentence for match in matches)],
    )
