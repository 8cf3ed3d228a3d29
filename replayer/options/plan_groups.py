"""The options that decide a plan, each declared once."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import click

from replayer.arrangements.arrangement import Arrangement
from replayer.models.geometry import DTYPE_BYTES
from replayer.options.types import (
    EXACT_GIB,
    PLAIN,
    SHARE,
    UNLIMITED,
    OptionTable,
    Parsed,
    one_of,
    option,
    parse_depth,
    unlimited_or,
    whole_number,
)
from replayer.record.options import DECODE_WORDS, POLICIES, Decode, Lookup, PaceKind, Placement
from tracegen.console.command_line import MILLISECONDS, SECONDS, Quantity
from tracegen.console.commands import NAME_OR_FILE, Word

Gib = int | float | Decimal
_BY_ARRANGEMENT: Final = "the arrangement's"


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OptionTable):
    """The model whose KV cache is replayed."""

    heading = "Model"
    example = "--kv-dtype fp8"

    model: str | None = option(
        None,
        "A name that `replayer model` lists, or that vendors use, or a Hugging Face config.json.",
        NAME_OR_FILE,
        "NAME|FILE",
        shown="the trace's",
    )
    kv_dtype: str = option("fp16", "Data type of keys and values.", Word(list(DTYPE_BYTES)))
    tensor_parallel: int = option(
        1, "GPUs that share the KV heads; bytes are those of one of them.", whole_number(1), "N", rare=True
    )
    pipeline_parallel: int = option(
        1, "Stages that share the layers; bytes are those of the largest.", whole_number(1), "N", rare=True
    )


@dataclass(frozen=True, kw_only=True)
class CapacityOptions(OptionTable):
    """The room of the tiers."""

    heading = "Capacity"
    example = "--cpu-mem-gb 64 --storage-capacity-gb 2TB"

    gpu_mem_gb: Gib = option(
        0, "GPU memory for KV: GiB, or 512M, 4G. 0: no gpu tier.", EXACT_GIB, "GIB", shown="the trace's, else 0"
    )
    cpu_mem_gb: Gib = option(
        0, "CPU memory for KV: GiB, or 512M, 4G. 0: no cpu tier.", EXACT_GIB, "GIB", shown="the trace's, else 0"
    )
    storage_capacity_gb: Gib = option(
        UNLIMITED,
        "NVMe capacity for KV: GiB, or 500G, 1T, 2TB (powers of 1,000). 0: no nvme tier.",
        unlimited_or(EXACT_GIB),
        "GIB|unlimited",
        shown="the trace's, else unlimited",
    )
    headroom: Gib = option(
        Decimal("0.8"),
        "Share of the gpu and cpu tiers that plans may fill; the rest is for moves in flight.",
        Quantity(SHARE, Decimal),
        "SHARE",
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class RuleOptions(OptionTable):
    """The rules by which objects enter, move through and leave the tiers."""

    heading = "Rules"
    example = "--engine lmcache --policy cpu=s3fifo"

    arrangement: str | Arrangement = option(
        "waterfall",
        "Rules of an engine: a name that `replayer arrangements` lists, or a TOML file.",
        NAME_OR_FILE,
        "NAME|FILE",
        alias="--engine",  # what users of vLLM or LMCache look for
    )
    policy: str | None = option(
        None,
        f"Which object is evicted first, in all tiers or by tier, as in gpu=lru,cpu=s3fifo: {', '.join(POLICIES)}.",
        click.STRING,
        "NAME|TIER=NAME,…",
        shown=_BY_ARRANGEMENT,
    )
    ttl: float | None = option(
        None,
        "Time after their last use at which objects expire: seconds, or 5m, 1h. 0: never.",
        Quantity(SECONDS),
        "S",
        shown=_BY_ARRANGEMENT,
        rare=True,
    )
    chunk_tokens: int | None = option(
        None,
        "Tokens of the chunks in which prompts are stored; 0: as in the trace.",
        whole_number(0),
        "N",
        shown=_BY_ARRANGEMENT,
        rare=True,
    )
    promote: bool = option(
        False,
        "Move each object that is read to the fastest tier that can hold it; not with rules"
        " under which several tiers may hold an object.",
        rare=True,
    )
    lookup: Lookup | None = option(
        None,
        "How reads are looked up. independent: each object by itself. contiguous: a request's"
        " prefix ends at its first miss.",
        one_of(Lookup),
        shown="the arrangement's, else the trace's",
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class WorkOptions(OptionTable):
    """The part of the trace that is replayed, and its sequence."""

    heading = "What is replayed"
    example = "--users 50 --order reference:nvme-2"

    users: int | None = option(None, "Only the trace's first N users.", whole_number(1), "N", shown="all")
    cycles: int = option(
        1, "Times that the trace is replayed in a row, each time with new keys.", whole_number(1), "N", rare=True
    )
    decode: Decode = option(
        "none",
        "Reads of a request's own KV while it decodes. reread: all, as kv-cache.py does. once:"
        " each request's first. none: engines keep it in GPU memory.",
        Word(list(DECODE_WORDS)),
        shown="the trace's, else none",
    )
    order: str | None = option(
        None,
        "Sequence in which the plan takes requests. trace: the trace's. engine: that of the"
        " engine's scheduler (docs/serving.md). reference: that in which users would make them"
        " on a reference system under this load. RUN: that of an earlier run.",
        NAME_OR_FILE,
        "trace|engine|reference[:NAME|FILE]|RUN",
        shown="engine if its scheduler can; else reference, or trace if pace is open and requests take no time",
    )
    placement: Placement = option(
        "planned",
        "What decides where objects go. planned: the plan. live: the state of the tiers when"
        " an op is dispatched; --order RUN repeats it.",
        one_of(Placement),
    )


@dataclass(frozen=True, kw_only=True)
class LoadOptions(OptionTable):
    """The starts of requests, their times apart from I/O, and what is in flight."""

    heading = "Load"
    example = "--pace open --speedup 4 --workers 256"

    workers: int | None = option(
        None,
        "Moves in flight at most.",
        whole_number(1, 10_000),
        "N",
        shown="the number of users replayed, at most 500",
    )
    max_concurrent_allocs: int | Decimal | float = option(
        0,
        "Stores in flight at most; 0: unlimited.",
        unlimited_or(whole_number(0)),
        "N|unlimited",
        shown="the trace's, else unlimited",
        rare=True,
    )
    pace: PaceKind = option(
        "closed",
        "When requests start. asap: at once. closed: a user's next one after the previous one"
        " and its think time. open: at the trace's times.",
        one_of(PaceKind),
        shown="the trace's, else closed",
    )
    speedup: float = option(1.0, "Divide the trace's times and pauses by this.", Quantity(PLAIN), "FACTOR")
    token_ms: float = option(
        0.0,
        "Time to generate a token: milliseconds, or 2s, 500us.",
        Quantity(MILLISECONDS),
        "MS",
        shown="the trace's, else 0",
    )
    prefill_tok_s: float | None = option(
        None, "Tokens per second at which new or missed KV is computed.", Quantity(PLAIN), "RATE", shown="at once"
    )
    request_depth: int | None = option(
        None,
        "Ops of one step of a request in flight at most.",
        Parsed("depth", parse_depth),
        "N|all",
        shown="1; all for block traces",
        rare=True,
    )
