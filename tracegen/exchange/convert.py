"""Traces from and to other labs: the table of formats, and how a file of one becomes ours."""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tqdm import tqdm

from tracegen.errors import InputError, check_is_file
from tracegen.exchange.importer import Importer
from tracegen.exchange.options import ImportOptions
from tracegen.files.trace_writer import TraceWriter
from tracegen.formats import azure, bailian, burstgpt, fio, kvcache_simulator, mlcommons, mooncake, oracle_general, weka
from tracegen.formats.export import HOLDS_BYTES, ExportOptions
from tracegen.formats.rows import DECODE_BATCH, BadRowError, Call, Rows
from tracegen.schema import Metadata, Trace
from tracegen.times import to_ns
from tracegen.workload.ops import make_ops

FORMATS: Final[dict[str, ModuleType]] = {
    "azure": azure,
    "bailian": bailian,
    "burstgpt": burstgpt,
    "fio": fio,
    "kvcache-simulator": kvcache_simulator,
    "mlcommons": mlcommons,
    "mooncake": mooncake,
    "oracle-general": oracle_general,
    "weka": weka,
}
IMPORTS: Final = [name for name, module in FORMATS.items() if hasattr(module, "read")]
COUNT_BYTES: Final = [name for name, module in FORMATS.items() if hasattr(module, "COUNTS_BYTES")]
EXPORTS: Final = [name for name, module in FORMATS.items() if hasattr(module, "write")]


@dataclass(frozen=True)
class Output:
    """Where an import goes, and how."""

    path: Path
    licence: str = "not stated"
    skip_bad: bool = False
    force: bool = False
    part_ops: int = 0
    quiet: bool = False


def import_trace(format_: str, paths: Sequence[Path], options: ImportOptions, output: Output) -> Metadata:
    """Write the trace that other labs' files hold; equal files and options give equal fingerprints.

    Raises:
        InputError: an option does not fit the format, a file is not of it, or the output exists already.
    """
    module = FORMATS[format_]
    files = _files(paths, getattr(module, "FILES", None))
    _check(format_, options)
    metadata = Metadata(options.seed, {}, f"kv-tier-bench {version('kv-tier-bench')}")
    with TraceWriter(output.path, metadata, force=output.force, part_ops=output.part_ops) as writer:
        total = sum(path.stat().st_size for path in files if path.is_file())
        shown: dict[str, Any] = {"desc": "reading", "unit": "B", "unit_scale": True, "leave": False}
        with tqdm(total=total, disable=output.quiet or None, **shown) as bar:
            token_ns = to_ns(options.decode_token_ms) // 1000
            rows = [Rows(path, skip_bad=output.skip_bad, progress=bar.update, token_ns=token_ns) for path in files]
            apart = module.SORTED and len(rows) > 1 and not options.shared_ids
            streams = [_checked(one, module, options, apart=apart) for one in rows]
            calls = heapq.merge(*streams, key=lambda call: call.time_ns) if module.SORTED else chain(*streams)
            first = next(calls, None)
            if first is None:
                raise InputError(f"{files[0]} holds no request; name a file of format {format_} with some in it.")
            sizes = {one.block_tokens for one in rows if one.block_tokens} or {module.BLOCK_TOKENS}
            if len(sizes) > 1:
                raise InputError(f"{files[0]} and the others have blocks of {sorted(sizes)} tokens; import each alone.")
            size = sizes.pop() if first.blocks is not None else None
            delays = getattr(module, "DELAYS", False)
            importer = Importer(
                options,
                size,
                output.path.absolute().parent,
                chained=module.PREFIX_CHAINED,
                in_order=module.SORTED,
                delays=delays,
            )
            requests = importer.requests(chain([first], calls))
            for batch in make_ops(requests, decode_batch=DECODE_BATCH, token_ns=token_ns, shared=0):
                writer.write(batch)
        scope = "as each file says" if not module.SORTED else "all files" if options.shared_ids else "file"
        about = {"format": format_, "time_unit": module.TIME_UNIT, "id_scope": scope}
        guessed = importer.counts["requests_in_guessed_sessions"] > 0
        sessions = "guessed" if guessed else "none" if options.sessions == "none" else "as given"
        metadata.recipe = {"import": about | asdict(options) | {"sessions": sessions}}
        _describe(metadata, rows, output.licence)
        metadata.counts |= {name: number for name, number in importer.counts.items() if number}
        if size is not None:
            metadata.block_tokens = options.rechunk or size
            metadata.prefix_chained = module.PREFIX_CHAINED or options.chain
    return metadata


def _checked(rows: Rows, module: ModuleType, options: ImportOptions, *, apart: bool) -> Iterator[Call]:
    """The calls of a file, with names of its own if `apart`; out of order, or with a block twice, they are bad rows."""
    latest = 0
    for call in module.read(rows):
        with rows.row(rows.line):
            if module.SORTED and call.time_ns < latest:
                raise BadRowError("time goes back: rows must be sorted by it")
            if call.blocks is not None and not options.chain and len(set(call.blocks)) < len(call.blocks):
                raise BadRowError("a block twice in a request: ids that name contents are told apart with --chain")
            latest = call.time_ns
            if apart:
                call.scope = (rows.path, call.scope)
                call.session = None if call.session is None else (rows.path, call.session)
                call.user = None if call.user is None else (rows.path, call.user)
            yield call


def _files(paths: Sequence[Path], pattern: str | None) -> list[Path]:
    """The files to read; of a folder those of a pattern, for the format that has one file per conversation."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() and pattern:
            inside = sorted(path.glob(pattern))
            if not inside:
                raise InputError(f"{path} is a folder without {pattern}; name conversations.")
            found += inside
        else:
            found.append(path)
    for path in found:
        check_is_file(path, "a file of this format")
    if twice := [path for path, count in Counter(found).items() if count > 1]:
        raise InputError(f"{twice[0]} is named twice; name each file once.")
    return found


def _check(format_: str, options: ImportOptions) -> None:
    demands = [
        ("--seed", 0 <= options.seed < 2**64, "from 0 to 2^64 - 1"),
        ("--jitter", 0 <= options.jitter_s <= 1e6, "from 0 to 1e6 seconds"),
        ("--rechunk", 0 <= options.rechunk < 2**31, "from 0 to 2^31 - 1"),
        ("--sample-sessions", 0 < options.sample_sessions <= 1, "more than 0 and at most 1"),
        ("--max-idle-gap", 0 <= options.max_idle_gap_s <= 1e9, "from 0 to 1e9 seconds"),
        ("--speedup", 1e-6 <= options.speedup <= 1e6, "from 1e-6 to 1e6"),
        ("--decode-token-ms", 0 <= options.decode_token_ms <= 1e6, "from 0 to 1e6"),
        ("--bytes-per-token", 0 <= options.bytes_per_token < 2**40, "from 1 to 2^40 - 1"),
    ]
    for flag, holds, demand in demands:
        if not holds:
            raise InputError(f"{flag} must be {demand}.")
    counts_bytes = format_ in COUNT_BYTES
    if counts_bytes and not options.bytes_per_token:
        raise InputError(f"{format_} {HOLDS_BYTES}")
    if options.decode_reads is not None and getattr(FORMATS[format_], "OWN_DECODE_READS", False):
        raise InputError(f"{format_} has its own decode reads; leave out --decode-reads and --no-decode-reads.")
    if options.sessions == "none" and not getattr(FORMATS[format_], "MAY_LACK_SESSIONS", False):
        raise InputError(f"{format_} guesses no sessions; leave out --sessions.")
    if options.bytes_per_token and not counts_bytes:
        raise InputError(f"{format_} counts tokens; leave out --bytes-per-token.")


def _describe(metadata: Metadata, rows: Sequence[Rows], licence: str) -> None:
    for one in rows:
        metadata.sources.append({"name": one.path.name, "sha256": one.sha256, "licence": licence})
        for counts in (one.left_out, one.skipped):
            for reason, number in counts.items():
                name = reason if counts is one.left_out else f"skipped: {reason}"
                metadata.counts[name] = metadata.counts.get(name, 0) + number


def export_trace(format_: str, trace: Trace, output: Path, options: ExportOptions) -> dict[str, Any]:
    """Write a trace in another lab's format; returns what was written and what left out, by name.

    Raises:
        InputError: the trace cannot be said in that format, or the output exists already.
    """
    counts: dict[str, Any] = FORMATS[format_].write(trace, output, options)
    return counts
