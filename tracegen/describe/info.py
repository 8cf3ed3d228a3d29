"""Facts about a trace: counts, lengths, reads by source, reuse distances, provenance; and how two traces differ."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from tracegen.describe.reuse import QUANTILES as DISTANCES
from tracegen.describe.reuse import Reuse
from tracegen.errors import format_count
from tracegen.memory import DESCRIBING, require_for_trace
from tracegen.trace.columns import DTYPES
from tracegen.trace.metadata import has_guessed_sessions
from tracegen.trace.reading import Trace
from views.answer import Answer, Chart, Column, Table

Facts = Mapping[str, Any]
"""Facts about a trace as `tracegen info --json` prints them: totals, spreads and reads by source."""

SPREADS: Final = (
    "turns_per_session",
    "prompt_tokens_per_request",
    "tokens_per_stored_object",
    "generated_tokens_per_request",
)
QUANTILES: Final = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def describe(trace: Trace) -> Facts:
    """Compute the facts about a trace, without its reuse distances."""
    require_for_trace(trace.ops, trace.metadata.counts, DESCRIBING, subject=trace.path)
    # Phases and sources as text, to be sorted by their names; tokens wide enough for sums.
    text = pl.col("op", "phase", "source").cast(pl.String)
    rows = trace.frame().with_columns(text, pl.col("tokens", "new_tokens").cast(pl.Int64))
    is_read = pl.col("op") == "read"
    is_write = pl.col("op") == "write"
    tokens = pl.col("tokens")
    users = pl.col("user_id").max() + 1
    totals = rows.select(
        ops=pl.len(),
        reads=is_read.sum(),
        writes=is_write.sum(),
        deletes=(pl.col("op") == "delete").sum(),
        decode_ops=(pl.col("phase") == "decode").sum(),
        requests=pl.col("request_id").max() + 1,
        sessions=pl.col("session_id").max() + 1,
        users=users,
        # Documents are users that only store chunks.
        documents=users - pl.col("user_id").filter(pl.col("source") != "rag").n_unique(),
        keys=pl.col("key").max() + 1,
        tokens_stored=tokens.filter(is_write).sum(),
        tokens_read=tokens.filter(is_read).sum(),
        tokens_generated=pl.col("new_tokens").sum(),
        duration_s=pl.col("time_ns").max() / 1e9,
    )
    reads = (
        rows.group_by("phase", "source")
        .agg(reads=is_read.sum(), tokens_read=tokens.filter(is_read).sum(), keys=pl.col("key").n_unique())
        .filter(pl.col("reads") > 0)
        .sort("phase", "source", descending=[True, False])
    )
    sums, reuse, *found = trace.collect(totals, reads, *_spread_sizes(rows))
    return {
        "path": str(trace.path),
        **sums.row(0, named=True),
        **{name: spread.row(0, named=True) for name, spread in zip(SPREADS, found, strict=True)},
        "reuse": reuse.to_dicts(),
        "metadata": asdict(trace.metadata),
    }


def _spread_sizes(rows: pl.LazyFrame) -> Iterator[pl.LazyFrame]:
    """Compute the mean and quantiles of each of SPREADS."""
    tokens = pl.col("tokens")
    prefill = rows.filter(pl.col("phase") == "prefill", pl.col("op") != "delete")
    for values in (
        rows.group_by("session_id").agg(n=pl.col("turn").max()),
        prefill.group_by("request_id").agg(n=tokens.sum()),
        prefill.filter(pl.col("op") == "write").select(n=tokens),
        rows.group_by("request_id").agg(n=pl.col("new_tokens").sum()),
    ):
        quantiles = {name: pl.col("n").quantile(share, interpolation="linear") for name, share in QUANTILES.items()}
        yield values.select(mean=pl.col("n").mean(), **quantiles)


def answer_trace(facts: Facts, reuse: Reuse, charts: list[Chart]) -> Answer:
    """Answer what a trace holds, and how much of it a cache could spare."""
    metadata = facts["metadata"]
    distances = {"share": reuse.share, "sources": reuse.summarise()}
    users = format_count(facts["users"] - facts["documents"], "user")
    documents = f" and {facts['documents']:,} documents" if facts["documents"] else ""
    return Answer(
        title=str(facts["path"]),
        kicker="kv-tier-bench trace",
        subject=[
            f"trace format {metadata['format_version']}, {metadata['generator']}, seed {metadata['seed']}",
            f"fingerprint {metadata['fingerprint']}",
            f"{facts['ops']:,} ops: {facts['writes']:,} writes, {facts['reads']:,} reads,"
            f" {facts['deletes']:,} deletes; {facts['decode_ops']:,} of them decode",
            f"{facts['requests']:,} requests in {facts['sessions']:,} sessions of {users}{documents}"
            f" over {facts['duration_s']:,.1f} s",
            f"{facts['tokens_stored']:,} tokens stored under {facts['keys']:,} keys,"
            f" {facts['tokens_read']:,} read, {facts['tokens_generated']:,} generated",
            *_list_provenance(facts),
        ],
        sentence=_say_reuse(facts),
        tables=[_tabulate_spreads(facts), _tabulate_reads(facts), _tabulate_distances(reuse)],
        charts=charts,
        source="the trace",
        data={**facts, "reuse_distance": distances},
    )


def _say_reuse(facts: Facts) -> str:
    """Say the share of prompt tokens that a cache of unlimited size would spare."""
    prefill = [row for row in facts["reuse"] if row["phase"] == "prefill"]
    reused = sum(row["tokens_read"] for row in prefill)
    whole = reused + facts["tokens_stored"]
    return f"Of {whole:,} prompt tokens {reused:,} were stored before: no cache spares more than {reused / whole:.1%}."


def _tabulate_spreads(facts: Facts) -> Table:
    names = ("mean", *QUANTILES)
    rows = [[name.replace("_", " "), *(round(facts[name][at], 1) for at in names)] for name in SPREADS]
    return Table(title="Sizes", columns=[Column("per"), *map(Column, names)], rows=rows)


def _tabulate_reads(facts: Facts) -> Table:
    rows = [
        [f"{row['phase']} {row['source']}", row["reads"], row["tokens_read"], row["keys"]] for row in facts["reuse"]
    ]
    columns = [Column("phase and source"), Column("reads"), Column("tokens"), Column("keys")]
    return Table(title="Reads", columns=columns, rows=rows)


def _tabulate_distances(reuse: Reuse) -> Table:
    """Tabulate reuses and their distances in tokens, by source."""
    rows = [[row["source"], row["reuses"], *(row[name] for name in DISTANCES)] for row in reuse.summarise()]
    sampled = f"Counts are exact; distances are those of {reuse.share:.2%} of the objects."
    columns = [Column("source"), Column("reuses"), *(Column(name.removeprefix("distance_")) for name in DISTANCES)]
    return Table(title="Reuse distance, tokens", columns=columns, rows=rows, notes=[sampled] * (reuse.share < 1))


def _list_provenance(facts: Facts) -> list[str]:
    metadata = facts["metadata"]
    lines = [
        f"source {source['name']} (sha256 {str(source.get('sha256'))[:12]}…, {source.get('licence')})"
        for source in metadata["sources"]
    ]
    if tokenizer := metadata["tokenizer"]:
        lines.append(f"tokenizer {tokenizer['name']}")
    if has_guessed_sessions(metadata["recipe"]):
        lines.append("sessions guessed: the source names none, so reuse across turns is an assumption")
    if metadata["block_tokens"]:
        chained = "prefix-chained" if metadata["prefix_chained"] else "not chained"
        lines.append(f"blocks of {metadata['block_tokens']} tokens, {chained}")
    others = {name: number for name, number in metadata["counts"].items() if name not in facts}
    if others:
        lines.append("from it: " + ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in others.items()))
    return lines


def compare_traces(a: Trace, b: Trace) -> Answer:
    """Compare the ops of two traces row by row; `equal` of its data is whether they are the same."""
    compared = min(a.ops, b.ops)
    others = b.frame().select(pl.all().name.prefix("b_"))
    rows = pl.concat([a.frame().head(compared), others.head(compared)], how="horizontal").with_row_index("row")
    unequal = [pl.col(name) != pl.col(f"b_{name}") for name in DTYPES]
    counts, firsts = a.collect(rows.select(unequal).sum(), rows.filter(pl.any_horizontal(unequal)).head(1))
    differing = {name: number for name, number in counts.row(0, named=True).items() if number}
    first = None
    sentence = f"{a.path} has {a.ops:,} ops, {b.path} {b.ops:,}; the {compared:,} they share are equal."
    if a.ops == b.ops:
        sentence = f"Equal: {a.ops:,} ops, fingerprint {a.metadata.fingerprint}."
    for row in firsts.iter_rows(named=True):
        name = min(name for name in DTYPES if row[name] != row[f"b_{name}"])
        first = {"row": row["row"], "column": name, "a": row[name], "b": row[f"b_{name}"]}
        sentence = f"The first difference is in row {row['row']:,}: {name} = {first['a']} and {first['b']}."
    table = Table(
        title=f"Rows that differ, of {compared:,}",
        columns=[Column("column"), Column("rows"), Column("share", "share")],
        rows=[[name, number, number / compared] for name, number in differing.items()],
    )
    is_equal = first is None and a.ops == b.ops
    data = {"equal": is_equal, "first": first, "rows_compared": compared, "rows_differing": differing}
    return Answer(title=f"{a.path} and {b.path}", sentence=sentence, tables=[table], data=data)
