"""Imports of other labs' traces, and exports to their formats."""

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain
from operator import attrgetter
from pathlib import Path

from tracegen.arrays import milliseconds_to_ns
from tracegen.errors import InputError, check_is_file
from tracegen.exchange.importer import Importer
from tracegen.exchange.options import ImportOptions
from tracegen.formats import FORMATS
from tracegen.formats.export import Export, check_bytes_per_token
from tracegen.formats.format import Format
from tracegen.formats.rows import DECODE_BATCH, BadRowError, Call, Rows
from tracegen.outputs import TraceOutput, open_output
from tracegen.progress import Progress, ignore_progress
from tracegen.trace.metadata import Metadata
from tracegen.trace.writing import TraceWriter
from tracegen.workload.ops import make_ops


def import_trace(
    name: str,
    paths: Sequence[Path],
    options: ImportOptions,
    output: TraceOutput,
    *,
    licence: str = "not stated",
    skip_bad: bool = False,
    progress: Progress = ignore_progress,
) -> Metadata:
    """Write the trace that files of a format, one of IMPORTS, hold; equal files and options give equal fingerprints.

    Raises:
        InputError: an option does not fit the format, a file is not of the format, or the output
            exists already.
    """
    format_ = FORMATS[name]
    files = _find_files(paths, format_.folder_pattern)
    options.check()
    _check_options(name, format_, options)
    metadata = Metadata(seed=options.seed, recipe={}, generator=f"kv-tier-bench {version('kv-tier-bench')}")
    total = sum(path.stat().st_size for path in files if path.is_file())
    token_ns = milliseconds_to_ns(options.decode_token_ms)
    with (
        TraceWriter(output.path, metadata, force=output.force, part_ops=output.part_ops) as writer,
        progress("reading", "B", total) as advance,
    ):
        columns = format_.columns or options.columns
        rows = [Rows(path, skip_bad=skip_bad, advance=advance, token_ns=token_ns, columns=columns) for path in files]
        calls = _merge_calls(rows, format_, options)
        first = next(calls, None)
        if first is None:
            problem = f"{files[0]} holds no request"
            raise InputError(problem, f"name a file of format {name} with requests")
        block_tokens = _agree_on_block_tokens(rows, format_, first)
        importer = Importer(format_, options, block_tokens, output.path.absolute().parent)
        requests = importer.requests(chain([first], calls))
        for batch in make_ops(requests, decode_batch=DECODE_BATCH, token_ns=token_ns, shared=0):
            writer.write(batch)
        metadata.recipe = {"import": _describe_import(name, format_, options, importer)}
        if format_.has_decode_reads or options.decode_reads:  # else no engine reads its own KV back
            metadata.recipe["replay"] = {"decode": "reread"}
        _record_rows(metadata, rows, licence, importer.counts)
        if block_tokens is not None:
            metadata.block_tokens = block_tokens
            metadata.prefix_chained = format_.is_prefix_chained or options.chain
    return metadata


def _merge_calls(rows: Sequence[Rows], format_: Format, options: ImportOptions) -> Iterator[Call]:
    """Yield the calls of all files, by their times if files are sorted, else file by file."""
    if not format_.is_sorted:
        return chain.from_iterable(_read_calls(file, format_, options, has_own_names=False) for file in rows)
    has_own_names = len(rows) > 1 and not (options.shared_ids or format_.has_global_ids)
    streams = [_read_calls(file, format_, options, has_own_names=has_own_names) for file in rows]
    return heapq.merge(*streams, key=lambda call: call.time_ns)


def _read_calls(rows: Rows, format_: Format, options: ImportOptions, *, has_own_names: bool) -> Iterator[Call]:
    """Yield the calls of a file; a call out of order or with a block twice is a bad row.

    With `has_own_names`, sessions, users and scopes are made distinct from those of other files.
    """
    assert format_.read is not None
    latest = 0
    calls: Iterable[Call] = format_.read(rows)
    if format_.has_late_rows:
        calls = sorted(calls, key=attrgetter("time_ns"))
    for call in calls:
        with rows.row(rows.line):
            if format_.is_sorted and call.time_ns < latest:
                raise BadRowError("time goes back", "rows must be sorted by it")
            blocks = call.blocks or []
            if len(set(blocks)) < len(blocks) and not options.chain:
                kind = "a block twice in a request"
                raise BadRowError(kind, "pass `chain` if ids name contents")
            latest = call.time_ns
            if has_own_names:
                call.scope = (rows.path, call.scope)
                call.session = None if call.session is None else (rows.path, call.session)
                call.user = None if call.user is None else (rows.path, call.user)
            yield call


def _agree_on_block_tokens(rows: Sequence[Rows], format_: Format, first: Call) -> int | None:
    """Return the tokens of a block in all files; None if they know lengths only. Refuse files of different blocks."""
    sizes = {file.block_tokens for file in rows if file.block_tokens}
    if len(sizes) > 1:
        problem = f"{rows[0].path} and the others have blocks of {sorted(sizes)} tokens"
        raise InputError(problem, "import each alone")
    if first.blocks is None:
        return None
    return sizes.pop() if sizes else format_.block_tokens


def _find_files(paths: Sequence[Path], pattern: str | None) -> list[Path]:
    """List the files to read; of a folder, those that match the format's pattern."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir() and pattern:
            matching = sorted(path.glob(pattern))
            if not matching:
                raise InputError(f"{path} is a folder without {pattern}", "name files of this format")
            files += matching
        else:
            files.append(path)
    names = {path.name for path in files}
    for path in files:
        check_is_file(path, "a file of this format")
        segment = re.fullmatch(r"(.*\.)(\d{6})(\.jsonl.*)", path.name)  # of a recording, as Dynamo names them
        if segment and int(segment[2]):
            before = f"{segment[1]}{int(segment[2]) - 1:06}{segment[3]}"
            if before not in names:
                raise InputError(f"{path} follows {before}, which is missing", "name all segments of the recording")
    if repeated := [path for path, count in Counter(files).items() if count > 1]:
        raise InputError(f"{repeated[0]} is named twice", "name each file once")
    return files


def _check_options(name: str, format_: Format, options: ImportOptions) -> None:
    """Refuse options that mean nothing for the format."""
    check_bytes_per_token(name, options.bytes_per_token, is_counted=format_.counts_bytes)
    if options.decode_reads is not None and format_.has_decode_reads:
        raise InputError(f"{name} has its own decode reads", "leave out `decode_reads`")
    if options.columns and not format_.takes_columns:
        raise InputError(f"the columns of {name} are known", "leave out `columns`")
    if options.sessions == "none" and not format_.may_lack_sessions:
        raise InputError(f"sessions of {name} are never guessed", "leave out `sessions`")


def _describe_import(name: str, format_: Format, options: ImportOptions, importer: Importer) -> dict[str, object]:
    """Describe the import for the recipe in the metadata: the format, and every option."""
    sessions = "none" if options.sessions == "none" else "as given"
    if importer.counts["requests_in_guessed_sessions"] > 0:
        sessions = "guessed"
    scope = "as each file says"
    if format_.is_sorted:
        scope = "all files" if options.shared_ids or format_.has_global_ids else "file"
    about = {"format": name, "time_unit": format_.time_unit, "id_scope": scope}
    return about | asdict(options) | {"sessions": sessions}


def _record_rows(metadata: Metadata, rows: Sequence[Rows], licence: str, counts: Counter[str]) -> None:
    """Record the files, and counts of what was left out or changed, in the metadata."""
    total = +counts
    for file in rows:
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        metadata.sources.append({"name": file.path.name, "sha256": digest, "licence": licence})
        total += file.left_out + Counter({f"skipped: {kind}": number for kind, number in file.skipped.items()})
    metadata.counts = dict(total)


def export_trace(name: str, export: Export) -> dict[str, int]:
    """Write a trace in a format, one of EXPORTS; return counts of what was written and left out.

    A name that ends in .zst compresses the output.

    Raises:
        InputError: the format cannot express the trace, or the output exists already.
    """
    format_ = FORMATS[name]
    assert format_.write is not None
    check_bytes_per_token(name, export.bytes_per_token, is_counted=format_.counts_bytes)
    counts = Counter[str]()
    # Closed at once if the disk is full: what a writer has opened itself is removed.
    with open_output(export.output, force=export.force) as file, closing(format_.write(export, counts)) as chunks:
        for chunk in chunks:
            file.write(chunk)
    return dict(counts)
