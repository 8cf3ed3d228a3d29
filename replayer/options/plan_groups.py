"""The options that decide a plan, each declared once."""

from decimal import Decimal
from typing import Annotated, Final

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.loading import shipped_names
from replayer.models.geometry import DTYPE_BYTES
from replayer.models.known import MODELS
from replayer.options.declaring import OptionTable, declare, one_of
from replayer.options.types import (
    EXACT_GIB,
    PLAIN,
    SHARE,
    UNLIMITED,
    Parsed,
    parse_depth,
    unlimited_or,
    whole_number,
)
from replayer.planning.order import shipped_references
from replayer.record.columns import TIERS
from replayer.record.options import DECODE_WORDS, POLICIES, Decode, Lookup, PaceKind, Placement
from tracegen.console.command_line import MILLISECONDS, SECONDS, Quantity
from tracegen.console.commands import Name, Word

Gib = int | float | Decimal
_BY_ARRANGEMENT: Final = "the arrangement's"


class ModelOptions(OptionTable, frozen=True, kw_only=True):
    """The model whose KV cache is replayed."""

    heading = "Model"
    example = "--model llama3.1-70b --kv-dtype fp8 --set tensor_parallel=4"

    model: Annotated[
        str | None,
        declare(
            "A name that `replayer model` lists, or that vendors use, or a Hugging Face config.json.",
            Name(lambda: MODELS),
            "NAME|FILE",
            default="the trace's",
            conditions="model bytes_per_token",
        ),
    ] = None
    kv_dtype: Annotated[
        str,
        declare(
            "Data type of keys and values.",
            Word(list(DTYPE_BYTES)),
            conditions="bytes_per_token",
        ),
    ] = "fp16"
    tensor_parallel: Annotated[
        int,
        declare(
            "GPUs that share the KV heads; the replay moves the bytes of one of them.",
            whole_number(1),
            "N",
            rare=True,
            conditions="bytes_per_token",
        ),
    ] = 1
    pipeline_parallel: Annotated[
        int,
        declare(
            "Stages that share the layers; the replay moves the bytes of the largest.",
            whole_number(1),
            "N",
            rare=True,
            conditions="bytes_per_token",
        ),
    ] = 1


class CapacityOptions(OptionTable, frozen=True, kw_only=True):
    """The room of the tiers."""

    heading = "Capacity"
    example = "--cpu-mem-gb 64 --storage-capacity-gb 2TB"

    gpu_mem_gb: Annotated[
        Gib,
        declare(
            "GPU memory for KV: GiB, or 512M, 4G. 0: no gpu tier.",
            EXACT_GIB,
            "GIB",
            default="the trace's, else 0",
            conditions="usable_bytes",
        ),
    ] = 0
    cpu_mem_gb: Annotated[
        Gib,
        declare(
            "CPU memory for KV: GiB, or 512M, 4G. 0: no cpu tier.",
            EXACT_GIB,
            "GIB",
            default="the trace's, else 0",
            conditions="usable_bytes",
        ),
    ] = 0
    storage_capacity_gb: Annotated[
        Gib,
        declare(
            "NVMe capacity for KV: GiB, or 500G, 1T, 2TB (powers of 1,000). 0: no nvme tier.",
            unlimited_or(EXACT_GIB),
            "GIB|unlimited",
            default="the trace's, else unlimited",
            conditions="usable_bytes",
        ),
    ] = UNLIMITED
    headroom: Annotated[
        Gib,
        declare(
            "Share of the gpu and cpu tiers that plans may fill; the rest is for moves in flight.",
            Quantity(SHARE, Decimal),
            "SHARE",
            rare=True,
            conditions="headroom usable_bytes",
        ),
    ] = Decimal("0.8")


class RuleOptions(OptionTable, frozen=True, kw_only=True):
    """The rules by which objects enter, move through and leave the tiers."""

    heading = "Rules"
    example = "--arrangement lmcache --policy cpu=s3fifo"

    arrangement: Annotated[
        str | Arrangement,
        declare(
            "Rules of an engine: a name that `replayer arrangements` lists, or a TOML file.",
            Name(shipped_names),
            "NAME|FILE",
            conditions="arrangement rules",
        ),
    ] = "waterfall"
    policy: Annotated[
        str | None,
        declare(
            f"Which object is evicted first, in all tiers or by tier, as in gpu=lru,cpu=s3fifo: {', '.join(POLICIES)}.",
            Name(lambda: (*POLICIES, *(f"{tier}=" for tier in TIERS)), separators="=,"),
            "NAME|TIER=NAME,…",
            default=_BY_ARRANGEMENT,
            conditions="rules",
        ),
    ] = None
    ttl: Annotated[
        float | None,
        declare(
            "Time after their last use at which objects expire: seconds, or 5m, 1h. 0: never.",
            Quantity(SECONDS),
            "S",
            default=_BY_ARRANGEMENT,
            rare=True,
            conditions="rules",
        ),
    ] = None
    chunk_tokens: Annotated[
        int | None,
        declare(
            "Tokens of the chunks in which prompts are stored; 0: as in the trace.",
            whole_number(0),
            "N",
            default=_BY_ARRANGEMENT,
            rare=True,
            conditions="rules",
        ),
    ] = None
    promote: Annotated[
        bool,
        declare(
            "Move each object that is read to the fastest tier that can hold it; not with rules"
            " under which several tiers may hold an object.",
            rare=True,
            conditions="promote",
        ),
    ] = False
    lookup: Annotated[
        Lookup | None,
        declare(
            "How reads are looked up. independent: each object by itself. contiguous: a request's"
            " prefix ends at its first miss.",
            one_of(Lookup),
            default="the arrangement's, else the trace's",
            rare=True,
            conditions="lookup",
        ),
    ] = None


class WorkOptions(OptionTable, frozen=True, kw_only=True):
    """The part of the trace that is replayed, and its sequence."""

    heading = "What is replayed"
    example = "--users 50 --order reference:nvme-2"

    users: Annotated[
        int | None,
        declare(
            "Only the trace's first N users.",
            whole_number(1),
            "N",
            default="all",
            conditions="users",
        ),
    ] = None
    cycles: Annotated[
        int,
        declare(
            "Times that the trace is replayed in a row, each time with new keys.",
            whole_number(1),
            "N",
            rare=True,
            conditions="cycles",
        ),
    ] = 1
    decode: Annotated[
        Decode,
        declare(
            "Reads of a request's own KV while it decodes. reread: all, as kv-cache.py does. once:"
            " each request's first. none: engines keep it in GPU memory.",
            Word(list(DECODE_WORDS)),
            default="the trace's, else none",
            conditions="decode",
        ),
    ] = "none"
    order: Annotated[
        str | None,
        declare(
            "Sequence in which the plan takes requests. trace: the trace's. reference: that in"
            " which users would make them on a reference system under this load. RUN: that of an"
            " earlier run.",
            Name(
                lambda: (
                    "trace",
                    "reference",
                    *(f"reference:{name}" for name in shipped_references()),
                )
            ),
            "trace|reference[:NAME|FILE]|RUN",
            default="reference; trace if pace is open and requests take no time",
            conditions="order",
        ),
    ] = None
    placement: Annotated[
        Placement,
        declare(
            "What decides where objects go. planned: the plan. live: the state of the tiers when"
            " an op is dispatched; --order RUN repeats it.",
            one_of(Placement),
            conditions="placement",
        ),
    ] = "planned"


class LoadOptions(OptionTable, frozen=True, kw_only=True):
    """The starts of requests, their times apart from I/O, and what is in flight."""

    heading = "Load"
    example = "--pace open --speedup 4 --workers 256"

    workers: Annotated[
        int | None,
        declare(
            "Moves in flight at most.",
            whole_number(1, 10_000),
            "N",
            default="the number of users replayed, at most 500",
            conditions="workers",
        ),
    ] = None
    max_concurrent_allocs: Annotated[
        int | Decimal | float,
        declare(
            "Stores in flight at most; 0: unlimited.",
            unlimited_or(whole_number(0)),
            "N|unlimited",
            default="the trace's, else unlimited",
            rare=True,
            conditions="max_concurrent_allocs",
        ),
    ] = 0
    pace: Annotated[
        PaceKind,
        declare(
            "When requests start. asap: at once. closed: a user's next one after the previous one"
            " and its think time. open: at the trace's times.",
            one_of(PaceKind),
            default="the trace's, else closed",
            conditions="pace",
        ),
    ] = "closed"
    speedup: Annotated[
        float,
        declare(
            "Divide the trace's times and pauses by this.",
            Quantity(PLAIN),
            "FACTOR",
            conditions="speedup",
        ),
    ] = 1.0
    token_ms: Annotated[
        float,
        declare(
            "Time to generate a token: milliseconds, or 2s, 500us.",
            Quantity(MILLISECONDS),
            "MS",
            default="the trace's, else 0",
            conditions="token_ms",
        ),
    ] = 0.0
    prefill_tok_s: Annotated[
        float | None,
        declare(
            "Tokens per second at which new or missed KV is computed.",
            Quantity(PLAIN),
            "RATE",
            default="at once",
            conditions="prefill_tok_s",
        ),
    ] = None
    request_depth: Annotated[
        int | None,
        declare(
            "Ops of one step of a request in flight at most.",
            Parsed("depth", parse_depth),
            "N|all",
            default="1; all for block traces",
            rare=True,
            conditions="request_depth",
        ),
    ] = None
