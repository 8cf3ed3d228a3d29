"""A report's numbers in other formats, and its file."""

import importlib.util
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
from msgspec.structs import asdict

from analysis.log import plan_order as orders
from analysis.metrics.headlines import REPORT
from analysis.report import text as wording
from analysis.report.data import Gathered
from analysis.sql.csv_cells import as_text
from analysis.summary.distributions import TABLES
from analysis.summary.percentiles import note
from analysis.summary.run_summary import Summary
from analysis.summary.text import describe_drive, format_verdicts
from tracegen.errors import InputError, format_count, missing_package

_SHEET_NAME: Final = 31  # characters that Excel allows


def tidy(data: Gathered) -> pl.DataFrame:
    """A row per run and metric: run, metric, value, unit; what is no number is left to JSON."""
    rows = [
        (run.name, name, None if value is None else float(value), wording.unit(name))
        for run in data.runs
        for name, value in run.summary.to_json().items()
        if value is None or isinstance(value, int | float)
    ]
    schema = {"run": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def as_html(data: Gathered) -> bytes:
    """The page."""
    from analysis.report.page import html  # noqa: PLC0415 (brings Altair and a renderer; other formats need neither)

    return html(data).encode()


def as_csv(data: Gathered) -> bytes:
    """The tidy table; no run's name is a formula."""
    return tidy(data).with_columns(as_text(pl.col("run"))).write_csv().encode()


def as_parquet(data: Gathered) -> bytes:
    """The tidy table."""
    sink = io.BytesIO()
    tidy(data).write_parquet(sink)
    return sink.getvalue()


def as_json(data: Gathered) -> bytes:
    """Summaries as `analysis summary --json` gives them, each with its tables."""
    runs = [
        run.summary.to_json() | {"tables": {name: table.to_dicts() for name, table in run.tables.items()}}
        for run in data.runs
    ]
    ranking = {"ranking": [vars(one) for one in data.ranking]} if data.ranking else {}
    return (json.dumps({"runs": runs} | ranking, indent=1) + "\n").encode()


def as_xlsx(data: Gathered) -> bytes:
    """Sheets: metrics, doubts, and one per table, all runs below one another."""
    import xlsxwriter  # noqa: PLC0415 (an extra, only for this)

    doubts = [
        {"run": run.name} | {name: getattr(doubt, name) for name in ("invalidates", "kind", "text", "advice")}
        for run in data.runs
        for doubt in run.summary.doubts
    ]
    words = dict.fromkeys(("run", "kind", "text", "advice"), pl.String) | {"invalidates": pl.Boolean}
    sheets = {"metrics": tidy(data), "doubts": pl.DataFrame(doubts, schema=words)}
    for name in TABLES:
        own = [run.tables[name].select(pl.lit(run.name).alias("run"), pl.all()) for run in data.runs if run.tables]
        sheets |= {name: pl.concat(own)} if own else {}
    sink = io.BytesIO()
    # No cell is a formula or a link, whatever a run is called.
    plain = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    with xlsxwriter.Workbook(sink, plain) as book:
        for name, table in sheets.items():
            formats: Mapping[Any, str] = {pl.selectors.float(): "General", pl.selectors.integer(): "#,##0"}
            table.write_excel(book, name[:_SHEET_NAME], column_formats=formats, freeze_panes=(1, 0), autofit=True)
    return sink.getvalue()


def as_markdown(data: Gathered) -> bytes:
    """Verdict, doubts, headline figures, ranking and machine, to be pasted into an issue."""
    names = [_cell(run.name) for run in data.runs]
    lines = [f"**{wording.state(data)}**", ""]
    lines += [f"- {_cell(f'{name}: {state}: {headline}')}" for name, state, headline in wording.systems(data)]
    if len(data.runs) > 1:
        lines.append(f"- {_cell(format_verdicts(data.summaries)[-1])}")
    lines += [f"- {name}: {_cell(wording.worth(run.summary))}" for name, run in zip(names, data.runs, strict=True)]
    lines += [
        f"- {'**Invalidates**' if against else 'Doubt'}: {kind}: {_cell(text)}. *{_cell(advice)}.*"
        for against, kind, text, advice in wording.doubts(data)
    ]
    lines += ["", f"| | unit | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    lines += [f"| {label} | {unit} | {' | '.join(values)} |" for _, label, unit, values in wording.rows(data)]
    lines += ["", *told] if (told := note(REPORT, [summary.metrics for summary in data.summaries])) else []
    if data.ranking:
        lines += ["", f"| {' | '.join(wording.RANKING)} |", "|---:|---|---:|---:|---:|---|"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in wording.ranking(data)]
    lines += ["", *(f"- {name}: {_cell(_ran(run.summary))}" for name, run in zip(names, data.runs, strict=True))]
    return ("\n".join(lines) + "\n").encode()


def _ran(summary: Summary) -> str:
    provenance = summary.provenance
    conditions, names = provenance.conditions, provenance.machine
    usable = asdict(conditions.usable_bytes)
    sizes = (f"{tier} {wording.setting('usable_bytes', size)}" for tier, size in usable.items() if size != 0)
    parts = [names.host, names.cpu, names.cores, describe_drive(provenance.storage) or None]
    machine = ", ".join(str(part) for part in parts if part is not None)
    trace, plan = str(provenance.trace_fingerprint)[:12], str(provenance.plan_fingerprint)[:12]
    return (
        f"{machine}; {conditions.model}; {', '.join(sizes)}; {format_count(conditions.workers, 'worker')}, pace"
        f" {conditions.pace}, {orders.describe_order(conditions)}; trace {trace}, plan {plan}"
    )


def _cell(text: str) -> str:
    """Text that Markdown takes for nothing else."""
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#" else char for char in " ".join(text.split()))


FORMATS: Final[dict[str, Callable[[Gathered], bytes]]] = {
    "html": as_html,
    "md": as_markdown,
    "csv": as_csv,
    "parquet": as_parquet,
    "json": as_json,
    "xlsx": as_xlsx,
}
TEXT: Final = ("md", "csv", "json")
"""What may go to a terminal."""


def chosen(form: str | None, output: Path | None, runs: Sequence[Path], *, force: bool) -> str:
    """The format, and that it can be written: found out before logs are read.

    Raises:
        InputError: no format is named, or it needs a file or package; the file is there, in a run, or has no folder.
    """
    found = form or (output.suffix.lower().removeprefix(".") if output else "")
    if found not in FORMATS:
        where = f"{output} names no format by its suffix" if output else "no file and no format"
        raise InputError(f"{where}; name a file with -o report.html, or pass --format {'|'.join(FORMATS)}.")
    if found == "xlsx" and importlib.util.find_spec("xlsxwriter") is None:
        raise missing_package("the format xlsx", "xlsxwriter", "xlsx", alternative="or write csv or parquet")
    if output is None:
        if found not in TEXT:
            raise InputError(f"--format {found} is not for a terminal; name a file with -o report.{found}.")
        return found
    if output.is_dir():
        raise InputError(f"-o {output} is a folder; name a file in it.")
    if within := next((run for run in runs if output.resolve().is_relative_to(run.resolve())), None):
        raise InputError(f"-o {output} lies in the run {within}, which stays as it is; name a file elsewhere.")
    if os.path.lexists(output) and not output.is_file():
        raise InputError(f"-o {output} is no regular file; name another, or leave out -o to write to the terminal.")
    if output.exists() and not force:
        raise InputError(f"{output} exists; name another file with -o, or pass --force.")
    if not output.parent.is_dir():
        raise InputError(f"-o {output}: there is no folder {output.parent}; make it, or name another file.")
    return found


def write(output: Path, content: bytes) -> None:
    """Write a file in whole or not at all.

    Raises:
        InputError: there is no room, or no right to.
    """
    target = output.resolve()  # a link stays one
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{output} cannot be written ({error.strerror}); name another file with -o.") from None
    finally:
        partial.unlink(missing_ok=True)
