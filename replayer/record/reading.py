"""Reading a run directory: run.json, and the log's parts, each refused if it is damaged."""

import json
import re
import stat
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replayer.record.columns import DEVICE_SCHEMA, LOG_ENUMS, LOG_SCHEMA, PREDICTED_RUN_VERSION, RUN_VERSION
from replayer.record.conditions import set_unknown_apart
from replayer.record.run_info import RanksInfo, RunInfo
from replayer.record.run_parts import Table
from tracegen.errors import InputError


def read_info(path: Path) -> RunInfo | RanksInfo:
    """Read the run.json of one process, or that above those of several ranks.

    Raises:
        InputError: the file is missing, damaged, or of a newer format.
    """
    content = _load(path)
    return _decode(path, content, RanksInfo if "ranks" in content else RunInfo)


def read_run(path: Path) -> RunInfo:
    """Read the run.json of one process; an InputError says if it is that above several ranks."""
    info = read_info(path)
    if isinstance(info, RanksInfo):
        raise InputError("describes several ranks", f"name one of {path}/rank_*", subject=f"{path}/run.json")
    return info


MOST_JSON: Final = 1 << 24  # bytes: a plan of 2^31 ops has 2 MB of checkpoints
_MOST_PARQUET: Final = 1 << 30  # bytes: a part holds 131,072 rows
_MEMORY: Final = 1 << 24  # bytes beside those of rows
_BYTE_ROWS: Final = 4  # of the file: honest logs take 24 bytes a row or more
_ROW_BYTES: Final = 1 << 11  # of memory; the longest error is a path


def _parse_integer(digits: str) -> int:
    """Parse an integer of run.json; refuse 41 digits or more: Python itself refuses only thousands."""
    if len(digits) > _DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


_DIGITS: Final = 40
_DENIED: Final = "{}: you may not read it; ask its owner for the right to."


def check_file(path: Path, most: int) -> None:
    """Refuse what is no regular file, which could be waited for for ever, or is too large to be what it should.

    Raises:
        InputError: says which.
        OSError: it is missing, or may not be looked at.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is not a regular file; copy the run anew.")
    if found.st_size > most:
        raise InputError(f"{path} has {found.st_size:,} bytes, more than any honest one ({most:,}); copy the run anew.")


def _load(path: Path) -> Table:
    """Parse a run.json and check its format's version, before any other field is looked at."""
    name = f"{path}/run.json"
    try:
        check_file(path / "run.json", MOST_JSON)
        content: Table = json.loads((path / "run.json").read_text(encoding="utf-8"), parse_int=_parse_integer)
        version = content["run_version"]  # before all else: a later format may have other fields
        if type(version) is not int or version < 1:
            raise TypeError("run_version is not the number of a format")
    except PermissionError:
        raise InputError(_DENIED.format(name)) from None
    except OSError as error:
        why = f"{path} is not a run directory: run.json: {error.strerror}"
        raise InputError(why, f"name one that `replayer run` made, such as {path}/trial_1") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(name, str(error)) from None
    if version not in (RUN_VERSION, PREDICTED_RUN_VERSION):
        known = f"this release reads {RUN_VERSION} and {PREDICTED_RUN_VERSION}"
        remedy = "replay it anew" if version < RUN_VERSION else "upgrade it"
        raise InputError(f"{path} is of run format {version}, {known}", remedy)
    return content


def _decode(path: Path, content: Table, kind: type[RunInfo | RanksInfo]) -> RunInfo | RanksInfo:
    """Convert a parsed run.json to its type; name the first field that is missing or of another type."""
    conditions = content.get("conditions")
    if isinstance(conditions, dict):
        content = content | {"conditions": set_unknown_apart(conditions)}
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        place = place.replace("`", "").removeprefix("$").removeprefix(".")
        field = _MISSING.fullmatch(problem)
        if field is not None:
            place, problem = f"{place}.{field[1]}".removeprefix("."), "the field is missing"
        problem = problem[:1].lower() + problem[1:]
        raise _damaged(f"{path}/run.json", f"{place}: {problem}" if place else problem) from None


def _damaged(name: str, problem: str) -> InputError:
    return InputError(f"{name} is damaged or incomplete: {problem}", "copy the run anew")


_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")


def parts(path: Path) -> list[Path]:
    """The closed parts of a run's log, in order, with the columns that they are written with.

    Raises:
        InputError: there are none, or one is not a part of such a log.
    """
    try:
        # Part files that were being written when the run died have another name.
        found = sorted(one for one in (path / "moves").iterdir() if one.match("part-*.parquet"))
    except PermissionError:
        raise InputError(_DENIED.format(path / "moves")) from None
    except OSError:
        found = []
    if not found:
        raise InputError(
            f"{path} holds no closed part of a log: nothing was executed, or the run died at once; replay it anew."
        )
    for part in found:
        _check_parquet(part, LOG_SCHEMA, "a move log")
    return found


def counters(path: Path) -> Path | None:
    """A run's device.parquet, with the columns that it is written with; None where nothing was sampled.

    Raises:
        InputError: it is something else.
    """
    found = path / "device.parquet"
    if not found.exists():
        return None
    _check_parquet(found, DEVICE_SCHEMA, "a log of counters")
    return found


def _check_parquet(path: Path, wanted: pa.Schema, what: str) -> None:
    """Columns, their types, that none has nulls where none are written, and the version."""
    try:
        check_file(path, _MOST_PARQUET)
        about = pq.read_metadata(path.absolute())  # a relative a:b would be taken for an address
        schema = about.schema.to_arrow_schema()
    except PermissionError:
        raise InputError(_DENIED.format(path)) from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path} is not readable ({str(error).splitlines()[0]}); copy the run anew.") from None
    version = (about.metadata or {}).get(b"kv-run", str(RUN_VERSION).encode()).decode(errors="replace")
    if version != str(RUN_VERSION):
        raise InputError(f"{path} is of run format {version}, this release reads {RUN_VERSION}; replay it anew.")
    _check_columns(path, schema, wanted, what)
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    _check_memory(path, about, groups)
    _check_nulls(path, about, groups, wanted)


def _check_columns(path: Path, schema: pa.Schema, wanted: pa.Schema, what: str) -> None:
    types = dict(zip(schema.names, schema.types, strict=True))
    for field in wanted:
        if field.name not in types:
            raise InputError(f"{path} is not {what}: column {field.name} is missing.")
        if not _is_like(types[field.name], field.type):
            kind = "text" if field.name in (*LOG_ENUMS, "error") else field.type
            raise InputError(f"{path} is not {what}: column {field.name} is {types[field.name]}, not {kind}.")


def _check_memory(path: Path, about: pq.FileMetaData, groups: list[pq.RowGroupMetaData]) -> None:
    """Refuse a file of a few bytes that claims rows that fill the memory when they are read (a zip bomb)."""
    size = path.stat().st_size
    memory = sum(group.total_byte_size for group in groups)
    if about.num_rows > size * _BYTE_ROWS or memory > about.num_rows * _ROW_BYTES + _MEMORY:
        claim = f"{path} claims {about.num_rows:,} rows in {size:,} bytes"
        raise InputError(f"{claim}: no replay writes it; copy the run anew.")


def _check_nulls(path: Path, about: pq.FileMetaData, groups: list[pq.RowGroupMetaData], wanted: pa.Schema) -> None:
    """Refuse nulls in required columns, as far as the statistics show them."""
    required = {field.name for field in wanted if not field.nullable}
    chunks = [(place, group.column(place)) for group in groups for place in range(about.num_columns)]
    for place, chunk in chunks:
        if chunk.physical_type != about.schema.column(place).physical_type:  # whose statistics end the process
            raise InputError(f"{path} is not readable (its columns are damaged); copy the run anew.")
        if chunk.path_in_schema in required and chunk.statistics is not None and chunk.statistics.null_count:
            raise InputError(f"{path}: column {chunk.path_in_schema} holds nulls where a replay leaves none.")


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may have passed through another tool: text is text, however it is stored."""
    # Polars writes enums as categories, DuckDB as plain text.
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (found, wanted)]
    texts = [pa.types.is_string(k) or pa.types.is_large_string(k) or pa.types.is_string_view(k) for k in plain]
    return all(texts) if texts[1] else bool(found == wanted)
