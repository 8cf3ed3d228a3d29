"""Formats of other labs, one module for each family; a new format is a module and a line in FORMATS."""

from typing import Final

from tracegen.formats import accesses, block_rows, dynamo, mlcommons, mooncake, otel, recordings, sglang, tables, weka
from tracegen.formats.format import Format

FORMATS: Final[dict[str, Format]] = {
    "azure": tables.AZURE,
    "bailian": block_rows.BAILIAN,
    "burstgpt": tables.BURSTGPT,
    "csv": tables.CSV,
    "dynamo": dynamo.FORMAT,
    "fio": accesses.FIO,
    "jsonl": tables.JSONL,
    "kvcache-simulator": block_rows.KVCACHE_SIMULATOR,
    "lmcache": recordings.LMCACHE,
    "mlcommons": mlcommons.FORMAT,
    "mooncake": mooncake.FORMAT,
    "oracle-general": accesses.ORACLE_GENERAL,
    "otel": otel.FORMAT,
    "sglang": sglang.FORMAT,
    "vllm-events": recordings.VLLM_EVENTS,
    "weka": weka.FORMAT,
}
"""The formats, by their names on the command line."""

IMPORTS: Final = [name for name, format_ in FORMATS.items() if format_.read]
EXPORTS: Final = [name for name, format_ in FORMATS.items() if format_.write]
