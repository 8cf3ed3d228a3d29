"""What vLLM's and LMCache's benchmarks measured, beside a replay, and whether the two may be compared."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from analysis.summary.run_summary import Summary
from replayer.schema import plain_model
from tracegen.errors import InputError

MATCH: Final = 0.05
"""The seeds' proposal: a replay matches a server's run if its output tokens per second lie within ±5%."""
MOST_BYTES: Final = 1 << 28
_LARGEST: Final = 2.0**63
_COUNTS: Final = ("requests", "failed", "input_tokens", "generated_tokens", "total_tokens")


@dataclass(frozen=True)
class Layout:
    """How a tool writes its results.

    Attributes:
        tool: who writes it.
        fields: our name for a quantity: theirs. A file is of this layout if it has all of them but `optional`.
        optional: ours, which some releases or options leave out.
        per_request: whether each record is a request (ttft, start and end in s) or a whole run.
    """

    tool: str
    fields: dict[str, str]
    optional: tuple[str, ...] = ()
    per_request: bool = False

    def fits(self, names: set[str]) -> bool:
        """Whether these are its fields."""
        return {theirs for ours, theirs in self.fields.items() if ours not in self.optional} <= names


LAYOUTS: Final = (
    Layout(
        "vllm bench serve",
        {
            "requests": "completed", "failed": "failed", "model": "model_id", "input_tokens": "total_input_tokens",
            "generated_tokens": "total_output_tokens", "duration_s": "duration", "ttft_mean_ms": "mean_ttft_ms",
            "ttft_p50_ms": "median_ttft_ms", "ttft_p99_ms": "p99_ttft_ms",
        },
        ("failed", "model", "input_tokens", "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms"),
    ),
    Layout(
        "vllm bench throughput",  # total_num_tokens are those of prompts and answers together
        {
            "requests": "num_requests", "duration_s": "elapsed_time", "total_tokens": "total_num_tokens",
            "total_tok_s": "tokens_per_second",
        },
        ("total_tok_s",),
    ),
    Layout(
        "lmcache bench engine",  # its JSON: {"config": …, "results": …}, taken as one
        {
            "requests": "successful_requests", "failed": "failed_requests", "model": "model",
            "input_tokens": "total_input_tokens", "generated_tokens": "total_output_tokens",
            "duration_s": "elapsed_time", "ttft_mean_ms": "mean_ttft_ms", "ttft_p50_ms": "p50_ttft_ms",
            "ttft_p99_ms": "p99_ttft_ms",
        },
        ("model", "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms"),
    ),
    Layout(
        "lmcache bench engine",  # its CSV
        {
            "ttft": "ttft", "start": "submit_time", "end": "finish_time", "input_tokens": "num_input_tokens",
            "generated_tokens": "num_output_tokens", "successful": "successful",
        },
        ("successful",),
        per_request=True,
    ),
    Layout(
        "LMCache multi-round-qa",
        {
            "ttft": "ttft", "start": "launch_time", "end": "finish_time", "input_tokens": "prompt_tokens",
            "generated_tokens": "generation_tokens",
        },
        per_request=True,
    ),
    Layout(
        "LMCache long_doc_qa",  # warmup_round.csv, query_round.csv; it counts no tokens
        {"ttft": "ttft", "start": "request_start", "end": "request_end", "successful": "successful"},
        ("successful",),
        per_request=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """A benchmark of a server, in our terms; None: its file does not say.

    Attributes:
        name: the file, and which of its results.
        tool: who wrote it.
        requests: completed ones; the failed ones apart.
        duration_s: from the first request to the last token.
        total_tokens: of prompts and answers, where the file does not tell them apart; total_tok_s the same per second.
        ttft_mean_ms: time to the first token, queueing, prefill and network included; as its quantiles.
    """

    name: str
    tool: str
    requests: int
    duration_s: float
    failed: int = 0
    model: str | None = None
    input_tokens: int | None = None
    generated_tokens: int | None = None
    total_tokens: int | None = None
    total_tok_s: float | None = None
    ttft_mean_ms: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None

    @property
    def output_tok_s(self) -> float | None:
        """Generated tokens per second of its duration."""
        if self.generated_tokens is None or not self.duration_s:
            return None
        return self.generated_tokens / self.duration_s


def read(path: Path) -> list[Reference]:
    """The results in a file: one, or as many as `vllm bench serve` appended to it.

    Raises:
        InputError: it cannot be read or is of no layout that is known here.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"--reference {path} is larger than {MOST_BYTES >> 20} MiB; pass the tool's summary.")
        text = content.decode("utf-8-sig")
        records = _objects(text) if text.lstrip().startswith(("{", "[")) else _rows(text)
    except OSError as error:
        raise InputError(f"--reference {path} cannot be read ({error.strerror}); pass a file.") from None
    except (ValueError, RecursionError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--reference {path} is neither JSON nor CSV ({reason}); {_expected()}") from None
    layout = _layout(records, path)
    if layout.per_request:
        return [_of_requests(layout, records, path)]
    names = [f"{path}" + (f" #{number}" if len(records) > 1 else "") for number in range(1, len(records) + 1)]
    return [_of_run(layout, record, name) for record, name in zip(records, names, strict=True)]


def _expected() -> str:
    return f"expected what one of these writes: {', '.join(dict.fromkeys(layout.tool for layout in LAYOUTS))}."


def _layout(records: list[Any], path: Path) -> Layout:
    """The one that every record fits."""
    names = [set(record) if isinstance(record, dict) else set() for record in records]
    for layout in LAYOUTS if names else ():
        if all(layout.fits(found) for found in names):
            return layout
    raise InputError(f"--reference {path} holds no result that is known; {_expected()}")


def _objects(text: str) -> list[Any]:
    """The results of a JSON file, or of one with one result per line."""
    try:
        records = [json.loads(text)]
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) == 1:
            raise
        records = [json.loads(line) for line in lines]
    return [_flat(record) for record in records]


def _flat(record: Any) -> Any:
    config, results = (record.get("config"), record.get("results")) if isinstance(record, dict) else (None, None)
    return config | results if isinstance(config, dict) and isinstance(results, dict) else record


def _rows(text: str) -> list[dict[str, Any]]:
    rows: Iterator[dict[str, Any]] = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    return list(rows)


def _of_run(layout: Layout, record: dict[str, Any], name: str) -> Reference:
    found: dict[str, Any] = {}
    for ours, theirs in layout.fields.items():
        if record.get(theirs) is None and ours in layout.optional:
            continue
        where = f"--reference {name}: {theirs}"
        found[ours] = _name(record[theirs], where) if ours == "model" else _number(record[theirs], where)
    counts = {ours: round(value) for ours, value in found.items() if ours in _COUNTS}
    return Reference(name, layout.tool, **found | counts)


def _of_requests(layout: Layout, rows: list[dict[str, Any]], path: Path) -> Reference:
    """Rows of requests added up; one that failed, or gave no token (ttft 0), counts as failed and no further."""
    done = [(line, row) for line, row in enumerate(rows, 2) if row.get("successful") not in ("False", "false", "0")]
    columns = {
        ours: np.array(
            [_number(_parsed(row[theirs]), f"--reference {path}: line {line}: {theirs}") for line, row in done]
        )
        for ours, theirs in layout.fields.items()
        if ours != "successful"
    }
    gave = columns["ttft"] > 0
    start, end, ttft_ms = columns["start"][gave], columns["end"][gave], columns["ttft"][gave] * 1e3
    found: dict[str, Any] = {ours: round(columns[ours][gave].sum()) for ours in _COUNTS if ours in columns}
    if len(ttft_ms):
        p50, p99 = np.quantile(ttft_ms, (0.5, 0.99))
        found |= {"ttft_mean_ms": float(ttft_ms.mean()), "ttft_p50_ms": float(p50), "ttft_p99_ms": float(p99)}
    duration_s = max(0.0, float(end.max() - start.min())) if len(end) else 0.0
    return Reference(str(path), layout.tool, len(end), duration_s, failed=len(rows) - len(end), **found)


def _parsed(text: Any) -> Any:
    try:
        return float(text)
    except (ValueError, TypeError):  # not a number; a short row has None here, a long one a list
        return text


def _number(value: Any, where: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST
    if not good:  # NaN compares false, too
        raise InputError(f"{where} is {str(value)[:40]!r}, not a number from 0 to 2^63; write the file anew.")
    return float(value)


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise InputError(f"{where} is {str(value)[:40]!r}, not a name; write the file anew.")
    return value


def same_model(ours: str, theirs: str) -> bool:
    """Whether two names mean one model, as far as its KV cache goes: e.g. llama3.1-8b and meta-llama/Llama-3.1-8B."""
    return plain_model(ours) == plain_model(theirs)


def differences(summary: Summary, reference: Reference) -> list[str]:
    """Why a replay and a server's run may not be compared; empty where, as far as both say, their work is the same."""
    model = summary.provenance.conditions.model
    found = [] if summary.is_valid else ["our run is not VALID"]
    if reference.model is not None and not same_model(model, reference.model):
        found.append(f"our model is {model}, theirs {reference.model}")
    if reference.failed:
        found.append(f"{reference.failed:,} of their requests failed")
    for what, ours, theirs in (
        ("requests", summary.metrics.get("requests"), reference.requests),
        ("generated tokens", summary.metrics["tokens_generated"], reference.generated_tokens),
    ):
        if ours is None or theirs is None:
            found.append(f"{'our' if ours is None else 'their'} {what} are not known")
        elif ours != theirs:
            found.append(f"our {what} are {ours:,}, theirs {theirs:,}")
    if not found and not (reference.output_tok_s and summary.metrics["wall_clock_tok_s"]):
        found.append("one of them generated nothing, or took no time")
    return found


LINES: Final = {
    "model": "model",
    "requests": "requests",
    "input_tokens": "input tokens",  # of ours not known: prompts are objects, shared ones among them
    "generated_tokens": "generated tokens",
    "total_tokens": "input + generated tokens",
    "duration_s": "duration s",
    "output_tok_s": "output tok/s",
    "total_tok_s": "input + output tok/s",
    "ttft_mean_ms": "TTFB | TTFT mean ms *",
    "ttft_p50_ms": "TTFB | TTFT P50 ms *",
    "ttft_p99_ms": "TTFB | TTFT P99 ms *",
}
UNLIKE: Final = "* unlike: ours is storage alone (TTFB), theirs holds queueing, prefill and network as well."


def beside(summary: Summary, reference: Reference) -> dict[str, Any]:
    """Both sides of what both measured, whether they are comparable, and if so, whether they match within ±5%.

    `difference`: of ours from their output tokens per second, as a share of theirs; null where not comparable.
    """
    reasons = differences(summary, reference)
    theirs = reference.output_tok_s
    own = summary.metrics["wall_clock_tok_s"]
    share = own / theirs - 1 if own and theirs and not reasons else None
    return {
        "file": reference.name,
        "tool": reference.tool,
        "comparable": not reasons,
        "reasons": reasons,
        "difference": share,
        "matches": None if share is None else abs(share) <= MATCH,
        "ours": _ours(summary),
        "theirs": {name: getattr(reference, name) for name in LINES},
    }


def _ours(summary: Summary) -> dict[str, Any]:
    named = {"generated_tokens": "tokens_generated", "duration_s": "elapsed_s", "output_tok_s": "wall_clock_tok_s"}
    metrics = {name: named.get(name, name.replace("ttft", "ttfb")) for name in LINES}
    known = {name: summary.metrics.get(metric) for name, metric in metrics.items()}
    return {**known, "model": summary.provenance.conditions.model}


def number(value: Any) -> str:
    """A number for people; `-` where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def lines(run: str, found: dict[str, Any]) -> list[str]:
    """What `beside` found, for people."""
    ours, theirs = found["ours"], found["theirs"]
    known = [n for n in LINES if not n.startswith("total_") or theirs[n] is not None]
    columns = [("", "ours", found["tool"]), *((LINES[n], number(ours[n]), number(theirs[n])) for n in known)]
    left, right = (max(len(column[side]) for column in columns) for side in (1, 2))
    table = [f"  {label:24}{one:>{left}}  {other:>{right}}" for label, one, other in columns]
    return [f"{run} beside {found['file']}", *table, f"  {UNLIKE}", _verdict(run, found)]


def _verdict(run: str, found: dict[str, Any]) -> str:
    pair = f"{run} with {found['file']}"
    if not found["comparable"]:
        return f"NOT COMPARABLE: {pair}: {'; '.join(found['reasons'])}."
    share = f"{found['difference']:+.1%}"
    verdict = (
        f"matches: {share} (within ±{MATCH:.0%})" if found["matches"] else f"differs by {share} (±{MATCH:.0%} matches)"
    )
    unsaid = "" if found["theirs"]["model"] else "; its file names no model"
    return f"COMPARABLE: {pair}: output tok/s {verdict}{unsaid}."
