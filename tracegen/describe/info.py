"""What is in a trace: counts, lengths, reuse, provenance."""

from dataclasses import asdict
from typing import Any

import polars as pl

from tracegen.describe.reuse import QUANTILES as DISTANCES
from tracegen.describe.reuse import Reuse
from tracegen.errors import InputError
from tracegen.schema import Trace, has_guessed_sessions

SPREADS = (
    "turns_per_session",
    "prompt_tokens_per_request",
    "tokens_per_stored_object",
    "generated_tokens_per_request",
)
QUANTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def describe(trace: Trace) -> dict[str, Any]:
    """Facts about a trace; token counts in tokens, duration in seconds.

    `reuse` gives, per source, the reads of stored KV and the tokens they would have to recompute without a cache.
    """
    rows = pl.scan_parquet(trace.paths, glob=False).with_columns(pl.col("op", "phase", "source").cast(pl.String))
    is_read, is_write = pl.col("op") == "read", pl.col("op") == "write"
    tokens = pl.col("tokens").cast(pl.Int64)
    totals = rows.select(
        ops=pl.len(),
        reads=is_read.sum(),
        writes=is_write.sum(),
        deletes=(pl.col("op") == "delete").sum(),
        decode_ops=(pl.col("phase") == "decode").sum(),
        requests=pl.col("request_id").max() + 1,
        sessions=pl.col("session_id").max() + 1,
        users=pl.col("user_id").max() + 1,
        documents=pl.col("user_id").max() + 1 - pl.col("user_id").filter(pl.col("source") != "rag").n_unique(),
        keys=pl.col("key").max() + 1,
        tokens_stored=tokens.filter(is_write).sum(),
        tokens_read=tokens.filter(is_read).sum(),
        tokens_generated=pl.col("new_tokens").cast(pl.Int64).sum(),
        duration_s=pl.col("time_ns").max() / 1e9,
    )
    turns = rows.group_by("session_id").agg(n=pl.col("turn").max()).select(_spread("n"))
    is_prefill = (pl.col("phase") == "prefill") & (pl.col("op") != "delete")
    prompt = rows.filter(is_prefill).group_by("request_id").agg(n=tokens.sum()).select(_spread("n"))
    stored = rows.filter(is_write & is_prefill).select(_spread("tokens"))
    generated = rows.group_by("request_id").agg(n=pl.col("new_tokens").sum()).select(_spread("n"))
    reuse = (
        rows.group_by("phase", "source")
        .agg(reads=is_read.sum(), tokens_read=tokens.filter(is_read).sum(), keys=pl.col("key").n_unique())
        .filter(pl.col("reads") > 0)
        .sort("phase", "source", descending=[True, False])
    )
    try:
        frames = pl.collect_all([totals, turns, prompt, stored, generated, reuse])
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{trace.path} cannot be read ({reason}); copy it anew.") from None
    return {
        "path": str(trace.path),
        **frames[0].row(0, named=True),
        "turns_per_session": frames[1].row(0, named=True),
        "prompt_tokens_per_request": frames[2].row(0, named=True),
        "tokens_per_stored_object": frames[3].row(0, named=True),
        "generated_tokens_per_request": frames[4].row(0, named=True),
        "reuse": frames[5].to_dicts(),
        "metadata": asdict(trace.metadata),
    }


def with_reuse(facts: dict[str, Any], reuse: Reuse) -> dict[str, Any]:
    """The facts, with reuse distances: in tokens, per source, of a sample where the trace is long."""
    return facts | {"reuse_distance": {"share": reuse.share, "error": reuse.error, "sources": reuse.summary()}}


def users(facts: dict[str, Any]) -> str:
    """How many users, in words: documents are users that only store chunks."""
    documents = facts["documents"]
    return f"{facts['users'] - documents:,} users" + (f" and {documents:,} documents" if documents else "")


def _spread(column: str) -> list[pl.Expr]:
    values = pl.col(column)
    quantiles = {name: values.quantile(q, interpolation="linear") for name, q in QUANTILES.items()}
    return [values.mean().alias("mean"), *(expr.alias(name) for name, expr in quantiles.items())]


def render(facts: dict[str, Any]) -> str:
    """The facts as text for people."""
    metadata = facts["metadata"]
    lines = [
        f"{facts['path']}: trace format {metadata['format_version']}, {metadata['generator']}, seed {metadata['seed']}",
        f"  fingerprint  {metadata['fingerprint']}",
        f"  ops          {facts['ops']:,} = {facts['writes']:,} writes + {facts['reads']:,} reads"
        f" + {facts['deletes']:,} deletes; {facts['decode_ops']:,} of them decode",
        f"  requests     {facts['requests']:,} in {facts['sessions']:,} sessions of {users(facts)}"
        f" over {facts['duration_s']:,.1f} s",
        f"  tokens       {facts['tokens_stored']:,} stored under {facts['keys']:,} keys,"
        f" {facts['tokens_read']:,} read, {facts['tokens_generated']:,} generated",
        "",
        f"  {'per':30}{'mean':>10}" + "".join(f"{name:>10}" for name in QUANTILES),
    ]
    for name in SPREADS:
        spread = facts[name]
        numbers = "".join(f"{spread[key]:>10,.{0 if key != 'mean' else 1}f}" for key in ("mean", *QUANTILES))
        lines.append(f"  {name.replace('_', ' '):30}{numbers}")
    lines += ["", f"  {'reads by phase and source':30}{'reads':>10}{'tokens':>16}{'keys':>10}"]
    lines += [
        f"  {row['phase'] + ' ' + row['source']:30}{row['reads']:>10,}{row['tokens_read']:>16,}{row['keys']:>10,}"
        for row in facts["reuse"]
    ]
    lines += _reuse_lines(facts) if "reuse_distance" in facts else []
    tokenizer = metadata["tokenizer"]
    lines += (
        ["", f"  tokenizer    {tokenizer['name']} (sha256 {str(tokenizer.get('digest'))[:12]}…)"] if tokenizer else [""]
    )
    lines += [
        f"  source       {source['name']} (sha256 {str(source.get('sha256'))[:12]}…, licence: {source.get('licence')})"
        for source in metadata["sources"]
    ]
    if has_guessed_sessions(metadata["recipe"]):
        lines.append("  sessions     guessed: the source names none, so reuse across turns is an assumption")
    if metadata["block_tokens"]:
        chained = "prefix-chained" if metadata["prefix_chained"] else "not chained"
        lines.append(f"  blocks       of {metadata['block_tokens']} tokens, {chained}")
    read = {name: number for name, number in metadata["counts"].items() if name not in facts}
    if read:
        lines.append(
            "  from it      " + ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in read.items())
        )
    return "\n".join(lines)


def _reuse_lines(facts: dict[str, Any]) -> list[str]:
    """Per source: how often an object is found again, and after how many tokens of others."""
    of_all = facts["reuse_distance"]
    lines = ["", f"  {'reuse distance, tokens':30}{'reuses':>10}{'p50':>16}{'p90':>16}{'p99':>16}{'max':>16}"]
    for row in facts["reuse_distance"]["sources"]:
        numbers = "".join(f"{'-' if row[name] is None else format(row[name], ',.0f'):>16}" for name in DISTANCES)
        lines.append(f"  {row['source']:30}{row['reuses']:>10,}{numbers}")
    if of_all["share"] < 1:
        errors = "".join(f"{'-' if error is None else f'±{error:.1%}':>16}" for error in of_all["error"].values())
        lines.append(f"  {'standard error of all':40}{errors}")
        lines.append(f"  counts are exact; distances are those of {of_all['share']:.2%} of the objects")
    return lines
