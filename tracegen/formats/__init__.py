"""Formats of other labs, one module each; a new format is a module and a line in FORMATS."""

from typing import Final

from tracegen.formats import (
    accesses,
    bailian,
    dynamo,
    kvcache_simulator,
    mlcommons,
    mooncake,
    sglang,
    tables,
    weka,
)
from tracegen.formats.format import Format

FORMATS: Final[dict[str, Format]] = {
    "azure": tables.AZURE,
    "bailian": bailian.FORMAT,
    "burstgpt": tables.BURSTGPT,
    "csv": tables.CSV,
    "dynamo": dynamo.FORMAT,
    "fio": accesses.FIO,
    "jsonl": tables.JSONL,
    "kvcache-simulator": kvcache_simulator.FORMAT,
    "mlcommons": mlcommons.FORMAT,
    "mooncake": mooncake.FORMAT,
    "oracle-general": accesses.ORACLE_GENERAL,
    "sglang": sglang.FORMAT,
    "weka": weka.FORMAT,
}
"""The formats, by their names on the command line."""

IMPORTS: Final = [name for name, format_ in FORMATS.items() if format_.read]
EXPORTS: Final = [name for name, format_ in FORMATS.items() if format_.write]
