"""Results that vLLM's and LMCache's benchmarks write, and whether a replay did the same work."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import msgspec
import numpy as np
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


class _Request(Struct, kw_only=True):
    """A request; times in s."""

    name: str
    tool: str
    ttft: Number
    start: Number
    end: Number
    input_tokens: Number | None = None
    generated_tokens: Number | None = None
    successful: bool = True


# Our names of fields that some releases or options of a tool leave out.
_OPTIONAL: Final = {
    "failed",
    "model",
    "successful",
    "input_tokens",
    "ttft_mean_ms",
    "ttft_p50_ms",
    "ttft_p99_ms",
}


class _Layout(Struct, frozen=True):
    """A layout of results: the tool, its field by our name, and whether records are requests or runs."""

    tool: str
    fields: dict[str, str]
    kind: type[Reference | _Request]

    @property
    def required(self) -> set[str]:
        """The fields by which a file has this layout."""
        return {theirs for ours, theirs in self.fields.items() if ours not in _OPTIONAL}


LAYOUTS: Final = (
    _Layout(
        "vllm bench serve",
        {
            "requests": "completed", "generated_tokens": "total_output_tokens", "duration_s": "duration",
            "failed": "failed",
            "input_tokens": "total_input_tokens",
            "model": "model_id",
            "ttft_mean_ms": "mean_ttft_ms", "ttft_p50_ms": "median_ttft_ms",
            "ttft_p99_ms": "p99_ttft_ms",
        },
        Reference,
    ),
    _Layout(
        "lmcache bench engine",  # its JSON: {"config": …, "results": …}, merged
        {
            "requests": "successful_requests", "failed": "failed_requests", "model": "model",
            "input_tokens": "total_input_tokens", "generated_tokens": "total_output_tokens",
            "duration_s": "elapsed_time", "ttft_mean_ms": "mean_ttft_ms", "ttft_p50_ms": "p50_ttft_ms",
            "ttft_p99_ms": "p99_ttft_ms",
        },
        Reference,
    ),
    _Layout(
        "lmcache bench engine",  # its CSV
        {
            "ttft": "ttft", "start": "submit_time", "end": "finish_time", "input_tokens": "num_input_tokens",
            "generated_tokens": "num_output_tokens", "successful": "successful",
        },
        _Request,
    ),
    _Layout(
        "LMCache multi-round-qa",
        {
            "ttft": "ttft", "start": "launch_time", "end": "finish_time", "input_tokens": "prompt_tokens",
            "generated_tokens": "generation_tokens",
        },
        _Request,
    ),
    _Layout(
        "LMCache long_doc_qa",  # warmup_round.csv, query_round.csv; without tokens
        {"ttft": "ttft", "start": "request_start", "end": "request_end", "successful": "successful"},
        _Request,
    ),
)  # fmt: skip


def read_references(path: Path) -> list[Reference]:
    """Read the results in a file; `vllm bench serve` may append several to one file.

    Raises:
        InputError: the file cannot be read, or has no known layout.
    """
    records = _read_records(path)
    fitting = [layout for layout in LAYOUTS if all(layout.required <= record.keys() for record in records)]
    if not records or not fitting:
        tools = dict.fromkeys(layout.tool for layout in LAYOUTS)
        raise _refuse(path, "contains no known result", f"pass a file that one of these wrote: {', '.join(tools)}")
    layout = fitting[0]
    several = len(records) > 1
    converted = [
        _convert(layout, record, f"{path} #{number}" if several else f"{path}")
        for number, record in enumerate(records, 1)
    ]
    if layout.kind is Reference:
        return [one for one in converted if isinstance(one, Reference)]
    return [_sum_requests(layout.tool, [one for one in converted if isinstance(one, _Request)], path)]


def _convert(layout: _Layout, record: dict[str, Any], name: str) -> Reference | _Request:
    """Convert a record; cells of CSV are texts."""
    values = {ours: record[theirs] for ours, theirs in layout.fields.items() if record.get(theirs) is not None}
    try:
        return msgspec.convert(values | {"name": name, "tool": layout.tool}, layout.kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        for ours, theirs in layout.fields.items():
            text = text.replace(f"$.{ours}`", f"{theirs}`")
        raise _refuse(name, text, "write the file again") from None


def _read_records(path: Path) -> list[dict[str, Any]]:
    """Read the records of a JSON or CSV file; a JSON file may have one document on each line."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _refuse(path, f"larger than {MOST_BYTES >> 20} MiB", "pass the tool's summary")
        text = content.decode("utf-8-sig").strip()
        if not text.startswith(("{", "[")):
            return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        records = msgspec.json.Decoder(dict[str, Any]).decode_lines(text)
        return [_merge_sections(record) for record in records]
    except OSError as error:
        raise _refuse(path, f"cannot be read ({error.strerror})", "pass a file") from None
    except (ValueError, RecursionError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        raise _refuse(path, f"neither JSON nor CSV ({reason})", "pass the tool's own file") from None


def _merge_sections(record: dict[str, Any]) -> dict[str, Any]:
    """Merge the sections `config` and `results` of a record that has both."""
    config, results = record.get("config"), record.get("results")
    return config | results if isinstance(config, dict) and isinstance(results, dict) else record


def _refuse(subject: object, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=subject, setting="references")


def _sum_requests(tool: str, requests: Sequence[_Request], path: Path) -> Reference:
    """Sum requests; one that failed, or that gave no token (ttft 0), counts only as failed."""
    done = [one for one in requests if one.successful and one.ttft > 0]
    ttft_ms = [one.ttft * 1e3 for one in done]
    p50, p99 = np.quantile(ttft_ms, (0.5, 0.99)).tolist() if done else (None, None)
    begin = min((one.start for one in done), default=0.0)
    return Reference(
        name=str(path),
        tool=tool,
        requests=len(done),
        failed=len(requests) - len(done),
        duration_s=max(0.0, max((one.end for one in done), default=0.0) - begin),
        input_tokens=_sum(one.input_tokens for one in done),
        generated_tokens=_sum(one.generated_tokens for one in done),
        ttft_mean_ms=fmean(ttft_ms) if done else None,
        ttft_p50_ms=p50,
        ttft_p99_ms=p99,
    )


def _sum(counts: Iterable[float | None]) -> float | None:
    """Sum what a file counts; None if it does not."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


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
