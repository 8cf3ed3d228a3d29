"""Facts about a trace: counts, lengths, reads by source, provenance."""

from dataclasses import asdict
from typing import Any, Final, NotRequired, TypedDict, cast

import polars as pl

from tracegen.describe.reuse import QUANTILES as DISTANCES
from tracegen.describe.reuse import Reuse, SourceReuse
from tracegen.errors import InputError
from tracegen.trace.metadata import has_guessed_sessions
from tracegen.trace.reading import Trace

SPREADS: Final = (
    "turns_per_session",
    "prompt_tokens_per_request",
    "tokens_per_stored_object",
    "generated_tokens_per_request",
)
QUANTILES: Final = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class Spread(TypedDict):
    """Mean and quantiles of a value."""

    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float


class SourceReads(TypedDict):
    """Reads of one phase and source.

    Without a cache, a server would recompute `tokens_read`.
    """

    phase: str
    source: str
    reads: int
    tokens_read: int
    keys: int


class ReuseDistances(TypedDict):
    """Reuse distances: the share of objects sampled, relative standard errors, quantiles by source."""

    share: float
    error: dict[str, float | None]
    sources: list[SourceReuse]


class Facts(TypedDict):
    """Facts about a trace, as `tracegen info --json` prints them; the duration is in seconds."""

    path: str
    ops: int
    reads: int
    writes: int
    deletes: int
    decode_ops: int
    requests: int
    sessions: int
    users: int
    documents: int
    keys: int
    tokens_stored: int
    tokens_read: int
    tokens_generated: int
    duration_s: float
    turns_per_session: Spread
    prompt_tokens_per_request: Spread
    tokens_per_stored_object: Spread
    generated_tokens_per_request: Spread
    reuse: list[SourceReads]
    metadata: dict[str, Any]
    reuse_distance: NotRequired[ReuseDistances]


def describe(trace: Trace) -> Facts:
    """Compute the facts about a trace, without its reuse distances.

    Raises:
        InputError: the trace cannot be read.
    """
    # As text: phases and sources are sorted by their names.
    rows = trace.frame().with_columns(pl.col("op", "phase", "source").cast(pl.String))
    is_read = pl.col("op") == "read"
    is_write = pl.col("op") == "write"
    is_prefill = (pl.col("phase") == "prefill") & (pl.col("op") != "delete")
    tokens = pl.col("tokens").cast(pl.Int64)
    new_tokens = pl.col("new_tokens")
    by_request = rows.group_by("request_id")
    prompts = rows.filter(is_prefill).group_by("request_id").agg(n=tokens.sum())
    queries = {
        "totals": rows.select(**_list_totals()),
        "turns_per_session": _spread(rows.group_by("session_id").agg(n=pl.col("turn").max()), "n"),
        "prompt_tokens_per_request": _spread(prompts, "n"),
        "tokens_per_stored_object": _spread(rows.filter(is_write & is_prefill), "tokens"),
        "generated_tokens_per_request": _spread(by_request.agg(n=new_tokens.sum()), "n"),
        "reuse": rows.group_by("phase", "source")
        .agg(
            reads=is_read.sum(),
            tokens_read=tokens.filter(is_read).sum(),
            keys=pl.col("key").n_unique(),
        )
        .filter(pl.col("reads") > 0)
        .sort("phase", "source", descending=[True, False]),
    }
    try:
        collected = pl.collect_all(list(queries.values()))
    except (pl.exceptions.PolarsError, OSError) as error:
        problem = f"{trace.path} cannot be read ({str(error).strip().splitlines()[0]})"
        raise InputError(problem, "copy it again") from None
    frames = dict(zip(queries, collected, strict=True))
    facts = {
        "path": str(trace.path),
        **frames["totals"].row(0, named=True),
        **{name: frames[name].row(0, named=True) for name in SPREADS},
        "reuse": frames["reuse"].to_dicts(),
        "metadata": asdict(trace.metadata),
    }
    return cast("Facts", facts)


def _list_totals() -> dict[str, pl.Expr]:
    """List the expressions of a trace's totals."""
    is_read = pl.col("op") == "read"
    is_write = pl.col("op") == "write"
    is_of_document = pl.col("source") == "rag"
    tokens = pl.col("tokens").cast(pl.Int64)
    users = pl.col("user_id").max() + 1
    return {
        "ops": pl.len(),
        "reads": is_read.sum(),
        "writes": is_write.sum(),
        "deletes": (pl.col("op") == "delete").sum(),
        "decode_ops": (pl.col("phase") == "decode").sum(),
        "requests": pl.col("request_id").max() + 1,
        "sessions": pl.col("session_id").max() + 1,
        "users": users,
        # Documents are users that only store chunks.
        "documents": users - pl.col("user_id").filter(~is_of_document).n_unique(),
        "keys": pl.col("key").max() + 1,
        "tokens_stored": tokens.filter(is_write).sum(),
        "tokens_read": tokens.filter(is_read).sum(),
        "tokens_generated": pl.col("new_tokens").cast(pl.Int64).sum(),
        "duration_s": pl.col("time_ns").max() / 1e9,
    }


def _spread(rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
    """Compute a Spread of a column."""
    values = pl.col(column)
    quantiles = {name: values.quantile(quantile, interpolation="linear") for name, quantile in QUANTILES.items()}
    return rows.select(mean=values.mean(), **quantiles)


def add_reuse(facts: Facts, reuse: Reuse) -> Facts:
    """Add the reuse distances to a trace's facts, by source, in tokens."""
    distances: ReuseDistances = {
        "share": reuse.share,
        "error": reuse.error,
        "sources": reuse.summarise(),
    }
    return {**facts, "reuse_distance": distances}


def format_users(facts: Facts) -> str:
    """Format the number of users, and of documents, which are users that only store chunks."""
    documents = facts["documents"]
    text = f"{facts['users'] - documents:,} users"
    return f"{text} and {documents:,} documents" if documents else text


def format_facts(facts: Facts) -> str:
    """Format the facts as text."""
    return "\n".join(
        [
            *_format_totals(facts),
            "",
            *_format_spreads(facts),
            "",
            *_format_reads(facts),
            *_format_distances(facts),
            "",
            *_format_provenance(facts),
        ]
    )


def _format_totals(facts: Facts) -> list[str]:
    metadata = facts["metadata"]
    return [
        f"{facts['path']}: trace format {metadata['format_version']}, {metadata['generator']}, seed {metadata['seed']}",
        f"  fingerprint  {metadata['fingerprint']}",
        f"  ops          {facts['ops']:,} = {facts['writes']:,} writes + {facts['reads']:,} reads"
        f" + {facts['deletes']:,} deletes; {facts['decode_ops']:,} of them decode",
        f"  requests     {facts['requests']:,} in {facts['sessions']:,} sessions of"
        f" {format_users(facts)} over {facts['duration_s']:,.1f} s",
        f"  tokens       {facts['tokens_stored']:,} stored under {facts['keys']:,} keys,"
        f" {facts['tokens_read']:,} read, {facts['tokens_generated']:,} generated",
    ]


def _format_spreads(facts: Facts) -> list[str]:
    lines = [f"  {'per':30}{'mean':>10}" + "".join(f"{name:>10}" for name in QUANTILES)]
    for name in SPREADS:
        spread = cast("dict[str, float]", facts[name])
        quantiles = "".join(f"{spread[quantile]:>10,.0f}" for quantile in QUANTILES)
        lines.append(f"  {name.replace('_', ' '):30}{spread['mean']:>10,.1f}{quantiles}")
    return lines


def _format_reads(facts: Facts) -> list[str]:
    lines = [f"  {'reads by phase and source':30}{'reads':>10}{'tokens':>16}{'keys':>10}"]
    for row in facts["reuse"]:
        name = f"{row['phase']} {row['source']}"
        numbers = f"{row['reads']:>10,}{row['tokens_read']:>16,}{row['keys']:>10,}"
        lines.append(f"  {name:30}{numbers}")
    return lines


def _format_distances(facts: Facts) -> list[str]:
    """Format the number of reuses and their distances, by source."""
    if "reuse_distance" not in facts:
        return []
    distances = facts["reuse_distance"]
    columns = "".join(f"{name:>16}" for name in ("p50", "p90", "p99", "max"))
    lines = ["", f"  {'reuse distance, tokens':30}{'reuses':>10}{columns}"]
    for row in distances["sources"]:
        distances_by_name = cast("dict[str, float | None]", row)
        quantiles = [distances_by_name[name] for name in DISTANCES]
        numbers = "".join(f"{'-' if number is None else format(number, ',.0f'):>16}" for number in quantiles)
        lines.append(f"  {row['source']:30}{row['reuses']:>10,}{numbers}")
    share = distances["share"]
    if share < 1:
        errors = "".join(f"{'-' if error is None else f'±{error:.1%}':>16}" for error in distances["error"].values())
        lines.append(f"  {'standard error of all':40}{errors}")
        lines.append(f"  counts are exact; distances are those of {share:.2%} of the objects")
    return lines


def _format_provenance(facts: Facts) -> list[str]:
    metadata = facts["metadata"]
    lines = []
    if tokenizer := metadata["tokenizer"]:
        digest = str(tokenizer.get("digest"))[:12]
        lines.append(f"  tokenizer    {tokenizer['name']} (sha256 {digest}…)")
    for source in metadata["sources"]:
        digest = str(source.get("sha256"))[:12]
        licence = source.get("licence")
        lines.append(f"  source       {source['name']} (sha256 {digest}…, licence: {licence})")
    if has_guessed_sessions(metadata["recipe"]):
        guess = "guessed: the source names none, so reuse across turns is an assumption"
        lines.append(f"  sessions     {guess}")
    if metadata["block_tokens"]:
        chained = "prefix-chained" if metadata["prefix_chained"] else "not chained"
        lines.append(f"  blocks       of {metadata['block_tokens']} tokens, {chained}")
    others = {name: number for name, number in metadata["counts"].items() if name not in facts}
    if others:
        counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in others.items())
        lines.append(f"  from it      {counts}")
    return lines
