"""Settings of a plan by name, and the options that they and the trace's own recipe resolve to."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypedDict

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.choosing import choose_arrangement
from replayer.models.known import MODELS, find_model
from replayer.planning.order import Order, parse_order
from replayer.planning.pace import PACES, TOKEN_MS, Demand, Pace
from replayer.planning.plan import PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.record.options import DECODE_WORDS, Decode, Lookup, PaceKind, Placement
from tracegen.errors import InputError
from tracegen.schema import Trace

UNLIMITED: Final = Decimal("inf")
"""Value of settings that may be unlimited."""
_MAX_DEFAULT_WORKERS: Final = 500

Gib = int | float | Decimal


class PlanSettings(TypedDict, total=False):
    """Settings of a plan; one that is absent or None has the trace's own value, else its default.

    Capacities are in GiB, times in the unit of the name. `math.inf` is unlimited.

    Attributes:
        model: name of a model, or path of a Hugging Face config.json.
        kv_dtype: type of keys and values; fp16 by default.
        tensor_parallel: number of ranks that share the KV heads; 1 by default.
        pipeline_parallel: number of stages that share the layers; 1 by default.
        gpu_mem_gb: GPU memory for KV cache; 0 by default.
        cpu_mem_gb: host memory for KV cache; 0 by default.
        storage_capacity_gb: room on NVMe; unlimited by default.
        headroom: usable share of gpu and cpu; 0.8 by default.
        arrangement: name of an arrangement that ships with the tool, or path of a TOML file;
            waterfall by default.
        engine: name of a serving engine whose arrangement counts instead.
        policy: which object a tier evicts first: lru, or policies by tier as in gpu=lru,cpu=s3fifo;
            the arrangement's by default.
        ttl: seconds after its last touch at which an object expires; 0: never; the arrangement's by
            default.
        chunk_tokens: tokens of a chunk in which prompts are stored; 0: as in the trace; the
            arrangement's by default.
        promote: move an object that is read to the fastest tier that can hold it.
        lookup: whether objects hit one by one or as a prefix.
        decode: decode reads that are replayed, see `Selection`; none by default: an engine keeps
            what it decodes in GPU memory.
        users: number of users, the first ones of the trace; all by default.
        cycles: number of times that the trace is replayed; 1 by default.
        order: trace, reference, reference:NAME or FILE, or a run directory.
        placement: planned by default; live: decided during the replay.
        workers: moves in flight; the users replayed by default, at most 500.
        max_concurrent_allocs: stores in flight; 0: unlimited, the default.
        pace: when requests start; closed by default.
        speedup: divisor of the trace's times; 1 by default.
        generation_mode: none, fast or realistic: milliseconds per token.
        token_ms: milliseconds per generated token, whatever the mode.
        prefill_tok_s: tokens per second of a prefill; it takes no time by default.
        request_depth: ops of one step at once; 0: all; 1 by default, all for block traces.
    """

    model: str | None
    kv_dtype: str
    tensor_parallel: int
    pipeline_parallel: int
    gpu_mem_gb: Gib | None
    cpu_mem_gb: Gib | None
    storage_capacity_gb: Gib | None
    headroom: Gib
    arrangement: str | Arrangement | None
    engine: str | None
    policy: str | None
    ttl: float | None
    chunk_tokens: int | None
    promote: bool
    lookup: Lookup | None
    decode: Decode | None
    users: int | None
    cycles: int
    order: str | None
    placement: Placement
    workers: int | None
    max_concurrent_allocs: int | float | Decimal | None
    pace: PaceKind | None
    speedup: float
    generation_mode: str | None
    token_ms: float | None
    prefill_tok_s: float | None
    request_depth: int | None


_RECIPE_TYPES: Final[dict[str, Any]] = {
    "model": str | None,
    "gpu_mem_gb": int | float | None,
    "cpu_mem_gb": int | float | None,
    "storage_capacity_gb": int | float | None,
    "pace": str | None,
    "generation_mode": str | None,
    "decode": str | None,
    "max_concurrent_allocs": int | None,
    "duration_s": int | float | None,
}
"""Types of the keys under `replay` of the recipe that a trace carries."""


def read_replay_recipe(trace: Trace) -> dict[str, Any]:
    """Return the keys under `replay` of the recipe that a trace carries.

    Raises:
        InputError: a key has a value of another type, or out of its range.
    """
    recipe = trace.metadata.recipe.get("replay") or {}
    for key, kind in _RECIPE_TYPES.items():
        value = recipe.get(key) if isinstance(recipe, dict) else ...
        is_sane = isinstance(value, kind) and not isinstance(value, bool)
        if is_sane and isinstance(value, int | float):
            is_sane = 0 <= value < 1e15 and (key != "duration_s" or value > 0)
        if not is_sane:
            raise InputError(
                f"replay.{key} of its recipe is not a value that `{key.removesuffix('_s')}` takes",
                "write the trace anew",
                subject=trace.path,
            )
    return recipe


def resolve_setting(
    trace: Trace,
    settings: Mapping[str, Any],
    name: str,
    key: str | None = None,
) -> Any:
    """Return a setting, else the value in the trace's recipe; None if it is unlimited or unknown.

    Args:
        trace: carries a recipe.
        settings: by name.
        name: of the setting.
        key: of the recipe under `replay`; the setting's name by default.
    """
    value = settings.get(name)
    if value is None:
        value = read_replay_recipe(trace).get(key or name)
    return None if value == UNLIMITED else value


def resolve_demand(trace: Trace, settings: PlanSettings) -> Demand:
    """Return the load that a replay puts on its tiers.

    Raises:
        InputError: a setting, or the recipe that the trace carries, is wrong.
    """
    pace: Any = resolve_setting(trace, settings, "pace") or "closed"
    mode = resolve_setting(trace, settings, "generation_mode") or "none"
    if mode not in TOKEN_MS or pace not in PACES:
        raise InputError(
            f"its recipe asks for pace {pace!r} and generation_mode {mode!r}",
            "pass `pace` and `generation_mode`",
            subject=trace.path,
        )
    token_ms = settings.get("token_ms")
    trace_users = int(trace.metadata.counts.get("users") or 1)
    users = settings.get("users") or trace_users
    depth = settings.get("request_depth")
    if depth is None:
        depth = 0 if trace.metadata.prefix_chained else 1
    return Demand(
        Pace(
            kind=pace,
            speedup=settings.get("speedup", 1),
            token_ms=TOKEN_MS[mode] if token_ms is None else token_ms,
            prefill_tok_s=settings.get("prefill_tok_s"),
            request_depth=depth or None,
        ),
        workers=settings.get("workers") or min(trace_users, users, _MAX_DEFAULT_WORKERS),
        allocs=resolve_setting(trace, settings, "max_concurrent_allocs") or None,
    )


def resolve_plan(
    trace: Trace,
    settings: PlanSettings,
    part: tuple[int, int] = (0, 1),
) -> tuple[str, PlanOptions]:
    """Return the model's name and the options of a plan.

    Args:
        trace: carries a recipe with values for settings that are absent.
        settings: of the plan.
        part: (rank, ranks), of a run whose ranks share the sessions.

    Raises:
        InputError: no model is named, or a setting or the recipe is wrong.
    """
    demand = resolve_demand(trace, settings)
    name = resolve_setting(trace, settings, "model")
    if name is None:
        raise InputError(
            "it names no model",
            f"pass `model`, one of {', '.join(MODELS)}",
            subject=trace.path,
        )
    model = find_model(name)
    return model.name, PlanOptions(
        bytes_per_token=model.sizes(
            settings.get("kv_dtype", "fp16"),
            settings.get("tensor_parallel", 1),
            settings.get("pipeline_parallel", 1),
        ),
        capacity_gib=(
            _capacity(trace, settings, "gpu_mem_gb") or Decimal(0),
            _capacity(trace, settings, "cpu_mem_gb") or Decimal(0),
            _capacity(trace, settings, "storage_capacity_gb"),
        ),
        headroom=Decimal(str(settings.get("headroom", "0.8"))),
        arrangement=choose_arrangement(settings),
        lookup=settings.get("lookup"),
        selection=Selection(
            _resolve_decode(trace, settings),
            settings.get("users"),
            part,
            settings.get("cycles", 1),
        ),
        order=_resolve_order(settings, demand.pace),
        demand=demand,
    )


def _capacity(trace: Trace, settings: PlanSettings, name: str) -> Decimal | None:
    gib = resolve_setting(trace, settings, name)
    return None if gib is None else Decimal(str(gib))


def _resolve_decode(trace: Trace, settings: PlanSettings) -> Decode:
    decode: Any = resolve_setting(trace, settings, "decode") or "none"
    if decode not in DECODE_WORDS:
        problem = f"its recipe asks for decode {decode!r}"
        raise InputError(problem, "pass `decode`", subject=trace.path)
    known: Decode = decode
    return known


def _resolve_order(settings: PlanSettings, pace: Pace) -> Order:
    order = settings.get("order")
    if settings.get("placement") != "live":
        return parse_order(order, pace)
    if order is not None:
        raise InputError("has an order of its own", "leave `order` out", setting="placement")
    return Order("live")
