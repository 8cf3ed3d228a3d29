"""The commands that exchange traces with other labs: import and export."""

import json
from pathlib import Path
from typing import Any, Final

import click

from tracegen.commands.options import (
    TRACE_PATH,
    ReportedTrace,
    add_output_flags,
    drop_missing,
    open_checked,
    report_trace,
    setting_flags,
    warn,
)
from tracegen.console.answers import json_option
from tracegen.console.commands import Word, command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import format_count
from tracegen.exchange.options import ImportOptions

_BYTES_PER_TOKEN: Final = {"bytes_per_token": "Bytes per token, for formats that count bytes."}
_BLOCKS: Final = {
    "tail": "Count a last, partial block with its tokens, as a full block, or not at all.",
    "chain": "Ids name contents: distinguish blocks by what is before them.",
    "shared_ids": "FILES are parts of one trace: their ids mean the same.",
    "decode_reads": "Decoding reads its objects back.  [default: if a replay asks; not for blocks]",
    **_BYTES_PER_TOKEN,
}
_TIMES: Final = {
    "sessions": "If a file of lengths names no sessions: guess who goes on, or give each request its own.",
    "jitter_s": "Move each session by up to this time: 3, 500ms, 2m.",
    "decode_token_ms": "Nominal time to generate a token.",
    "seed": "Seed of all draws: jitter, sample, classes.  [default: 0]",
}


def _list_imports() -> list[str]:
    from tracegen.formats import IMPORTS

    return sorted(IMPORTS)


def _list_exports() -> list[str]:
    from tracegen.formats import EXPORTS

    return EXPORTS


_COLUMNS: Final = {
    "columns": "Columns of csv and jsonl: prompt=NAME,answer=NAME,session=NAME,time=NAME; also time_ms, ids."
}
_FILE_FLAGS: Final = (
    *setting_flags(ImportOptions(), _COLUMNS),
    click.option("--skip-bad", is_flag=True, help="Skip bad rows and count them, instead of refusing the file."),
    click.option("--licence", default="not stated", show_default=True, help="Licence of the files, for the metadata."),
)

_IMPORT_HELP: Final = """Turn FILES of another lab, an engine or a gateway into a trace: docs/formats.md says how.

Each FORMAT with an example; ShareGPT's is a source of `tracegen generate`:

\b
  azure              AzureLLMInferenceTrace_conv.csv --sessions none
  bailian            qwen_traceA_blksz_16.jsonl --chain
  burstgpt           BurstGPT_1.csv
  csv                log.csv --columns prompt=prompt_tokens,answer=output_tokens
  dynamo             captures/
  jsonl              log.jsonl --columns ids=prompt_token_ids,time=created
  kvcache-simulator  trace.jsonl
  lmcache            lookup_hashes_20260401_143025_000000.jsonl
  mlcommons          io.csv.zst --bytes-per-token 131072
  mooncake           conversation_trace.jsonl --jitter 3
  otel               spans.jsonl
  sglang             hicache.jsonl --bytes-per-token 131072
  vllm-events        events.jsonl
  weka               conversations/
"""


@command(
    "import",
    help=_IMPORT_HELP,
    short_help="Convert the trace of another lab, an engine or a gateway.",
    epilog="Example: tracegen import mooncake conversations.jsonl --jitter 3 -o trace.parquet",
)
@click.argument("format_", metavar="FORMAT", type=Word(_list_imports))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@option_group("Blocks", "--tail full --chain", *setting_flags(ImportOptions(), _BLOCKS))
@option_group("Sessions and times", "--sessions none --jitter 3", *setting_flags(ImportOptions(), _TIMES))
@option_group("Files", "--skip-bad --licence CC-BY-4.0", *_FILE_FLAGS)
@add_output_flags
def import_(
    format_: str, files: tuple[Path, ...], licence: str, skip_bad: bool, output: ReportedTrace, **flags: Any
) -> None:
    """Write the trace that files of a format hold."""
    from tracegen.exchange.convert import import_trace

    options = ImportOptions(**drop_missing(flags))
    metadata = import_trace(format_, files, options, output, licence=licence, skip_bad=skip_bad, progress=show_progress)
    report_trace(output, metadata)
    if number := metadata.counts.get("requests_in_guessed_sessions"):
        warn(
            f"{files[0]} names no sessions; {number:,} requests were joined to earlier ones by guess,"
            " which invents their reuse; --sessions none does not"
        )
    if number := metadata.counts.get("parallel_sub_agents"):
        warn(f"{format_count(number, 'sub-agent')} ran alongside others: in the trace no caller waits for them")
    for name, number in metadata.counts.items():
        if name.startswith("skipped: "):
            kind = name.removeprefix("skipped: ")
            warn(f"{format_count(number, 'bad row')} left out: {kind}")


@command(
    short_help="Write a trace in another lab's format.",
    epilog="Example: tracegen export oracle-general trace.parquet --bytes-per-token 131072 -o trace.zst",
)
@click.argument("format_", metavar="FORMAT", type=Word(_list_exports))
@click.argument("trace", type=TRACE_PATH)
@option_group("Format", "--bytes-per-token 131072", *setting_flags(ImportOptions(), _BYTES_PER_TOKEN))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file; .zst compresses it.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@json_option("the counts of what was written")
def export(format_: str, trace: Path, output: Path, force: bool, as_json: bool, **flags: object) -> None:
    """Write TRACE in another lab's FORMAT: docs/formats.md says how.

    FORMAT is fio, kvcache-simulator, mlcommons, mooncake or oracle-general.
    """
    from tracegen.exchange.convert import export_trace
    from tracegen.formats.export import Export

    counts = export_trace(format_, Export(open_checked(trace), output, force=force, **drop_missing(flags)))
    if as_json:
        click.echo(json.dumps(counts, indent=2))
        return
    totals = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
    click.echo(f"{output}: {totals}")
