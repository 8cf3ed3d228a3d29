"""Readers of the results that vLLM's and LMCache's benchmarks write."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracegen.errors import InputError

MOST_BYTES: Final = 1 << 28
"""Largest file of results that is read."""
_LARGEST: Final = 2.0**63
_COUNTS: Final = ("requests", "failed", "input_tokens", "generated_tokens", "total_tokens")

Record = dict[str, Any]
"""A record of a file that another tool wrote: anything may be in it."""


@dataclass(frozen=True)
class Layout:
    """A layout of results.

    Attributes:
        tool: the tool that writes it.
        fields: the file's field by our name for the quantity. A file has this layout if it has all
            fields that are not optional.
        optional: our names of fields that some releases or options leave out.
        per_request: whether each record is a request (ttft, start and end in s) or a whole run.
    """

    tool: str
    fields: dict[str, str]
    optional: tuple[str, ...] = ()
    per_request: bool = False

    def fits(self, names: set[str]) -> bool:
        """Return whether a record with these fields has this layout."""
        required = {theirs for ours, theirs in self.fields.items() if ours not in self.optional}
        return required <= names


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
        "vllm bench throughput",  # total_num_tokens counts prompts and answers together
        {
            "requests": "num_requests", "duration_s": "elapsed_time", "total_tokens": "total_num_tokens",
            "total_tok_s": "tokens_per_second",
        },
        ("total_tok_s",),
    ),
    Layout(
        "lmcache bench engine",  # its JSON: {"config": …, "results": …}, merged
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
        "LMCache long_doc_qa",  # warmup_round.csv, query_round.csv; without tokens
        {"ttft": "ttft", "start": "request_start", "end": "request_end", "successful": "successful"},
        ("successful",),
        per_request=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Reference:
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
        total_tokens: tokens of prompts and answers, if the file does not separate them.
        total_tok_s: tokens of prompts and answers per second.
        ttft_mean_ms: time to the first token, with queueing, prefill and network.
        ttft_p50_ms: median of the same.
        ttft_p99_ms: 99th percentile of the same.
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
        """Generated tokens per second of the duration."""
        if self.generated_tokens is None or not self.duration_s:
            return None
        return self.generated_tokens / self.duration_s


def read_references(path: Path) -> list[Reference]:
    """Read the results in a file; `vllm bench serve` may append several to one file.

    Raises:
        InputError: the file cannot be read, or has no known layout.
    """
    records = _read_records(path)
    layout = _find_layout(records, path)
    if layout.per_request:
        return [_sum_requests(layout, records, path)]
    several = len(records) > 1
    return [
        _convert_run(layout, record, f"{path} #{number}" if several else f"{path}")
        for number, record in enumerate(records, 1)
    ]


def _read_records(path: Path) -> list[Any]:
    """Read the records of a JSON or CSV file."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _refuse(path, f"larger than {MOST_BYTES >> 20} MiB", "pass the tool's summary")
        text = content.decode("utf-8-sig")
        return _parse_json(text) if text.lstrip().startswith(("{", "[")) else _parse_csv(text)
    except OSError as error:
        raise _refuse(path, f"cannot be read ({error.strerror})", "pass a file") from None
    except (ValueError, RecursionError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        raise _refuse(path, f"neither JSON nor CSV ({reason})", _name_tools()) from None


def _refuse(subject: object, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=subject, setting="references")


def _name_tools() -> str:
    tools = dict.fromkeys(layout.tool for layout in LAYOUTS)
    return f"pass a file that one of these wrote: {', '.join(tools)}"


def _find_layout(records: list[Any], path: Path) -> Layout:
    """Return the first layout that all records have."""
    names = [set(record) if isinstance(record, dict) else set() for record in records]
    for layout in LAYOUTS if names else ():
        if all(layout.fits(fields) for fields in names):
            return layout
    raise _refuse(path, "contains no known result", _name_tools())


def _parse_json(text: str) -> list[Any]:
    """Parse a JSON document, or one document on each line."""
    try:
        records = [json.loads(text)]
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) == 1:
            raise
        records = [json.loads(line) for line in lines]
    return [_merge_sections(record) for record in records]


def _merge_sections(record: Any) -> Any:
    """Merge the sections `config` and `results` of a record that has both."""
    if not isinstance(record, dict):
        return record
    config = record.get("config")
    results = record.get("results")
    return config | results if isinstance(config, dict) and isinstance(results, dict) else record


def _parse_csv(text: str) -> list[Record]:
    rows: Iterator[Record] = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    return list(rows)


def _convert_run(layout: Layout, record: Record, name: str) -> Reference:
    """Convert a record of a whole run."""
    values: dict[str, Any] = {}
    for ours, theirs in layout.fields.items():
        if record.get(theirs) is None and ours in layout.optional:
            continue
        check = _check_name if ours == "model" else _check_number
        values[ours] = check(record[theirs], f"{name}: {theirs}")
    counts = {ours: round(value) for ours, value in values.items() if ours in _COUNTS}
    return Reference(name, layout.tool, **values | counts)


def _sum_requests(layout: Layout, rows: list[Record], path: Path) -> Reference:
    """Sum the records of requests.

    A request that failed, or that gave no token (ttft 0), counts only as failed.
    """
    done = [(line, row) for line, row in enumerate(rows, 2) if row.get("successful") not in ("False", "false", "0")]
    columns = {
        ours: np.array(
            [_check_number(_parse_number(row[theirs]), f"{path}: line {line}: {theirs}") for line, row in done]
        )
        for ours, theirs in layout.fields.items()
        if ours != "successful"
    }
    has_token = columns["ttft"] > 0
    start = columns["start"][has_token]
    end = columns["end"][has_token]
    ttft_ms = columns["ttft"][has_token] * 1e3
    values: dict[str, Any] = {ours: round(columns[ours][has_token].sum()) for ours in _COUNTS if ours in columns}
    if len(ttft_ms):
        p50, p99 = np.quantile(ttft_ms, (0.5, 0.99))
        values["ttft_mean_ms"] = float(ttft_ms.mean())
        values["ttft_p50_ms"] = float(p50)
        values["ttft_p99_ms"] = float(p99)
    duration_s = max(0.0, float(end.max() - start.min())) if len(end) else 0.0
    failed = len(rows) - len(end)
    return Reference(str(path), layout.tool, len(end), duration_s, failed=failed, **values)


def _parse_number(text: Any) -> Any:
    """Return the number that a cell contains, or the cell if it contains none."""
    try:
        return float(text)
    except (ValueError, TypeError):  # a short row has None in its last columns, a long one a list
        return text


def _check_number(value: Any, subject: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < _LARGEST:  # NaN compares false, too
        problem = f"{str(value)[:40]!r} is not a number from 0 to 2^63"
        raise _refuse(subject, problem, "write the file again")
    return float(value)


def _check_name(value: Any, subject: str) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise _refuse(subject, f"{str(value)[:40]!r} is not a name", "write the file again")
    return value
