"""Recipes: everything that decides a trace, with every default; checked once."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Literal, NamedTuple

from tracegen.errors import InputError, quote_value

SHAPES = (1, 0.5, 0.25, 0.1)  # of the gamma laws whose tables are shipped; 1 needs none


@dataclass(frozen=True)
class Mix:
    """Weights of the sources of users; all 0: ShareGPT alone, if a file is named."""

    sharegpt: int = 0
    personas: int = 0
    rag: int = 0


@dataclass(frozen=True)
class ShareGPTFile:
    """A file of conversations in ShareGPT's format, sampled by seed."""

    path: str = ""
    licence: str = "not stated"  # of the file; goes into the trace's metadata
    max_conversations: int = 0  # 0: all
    max_context_tokens: int = 0  # clamps the prompt of a turn; 0: no limit
    max_generation_tokens: int = 0  # clamps the answer of a turn; 0: no limit
    glue: bool = True  # join the segments that long conversations were split into


@dataclass(frozen=True)
class UserKind:
    """A kind of user.

    Each user draws one length from each range, uniformly, and each turn a quarter to the whole of
    it.
    """

    context: tuple[int, int] = (512, 4096)  # tokens
    generation: tuple[int, int] = (50, 200)  # tokens
    think_s: tuple[float, float] = (0.1, 0.5)
    continues: float = 0.8  # probability of one more turn
    max_turns: int = 50
    question: tuple[int, int] = (16, 256)  # tokens that a later turn adds, with context_growth


@dataclass(frozen=True)
class Persona(UserKind):
    """One of several kinds of user, with its weight among them."""

    weight: int = 1


def _default_personas() -> dict[str, Persona]:
    """Return the three personas of kv-cache.py."""
    return {
        "chatbot": Persona(),
        "coding": Persona(context=(4096, 25000), generation=(100, 500), think_s=(0.2, 1.0)),
        "document": Persona(context=(4096, 16384), generation=(200, 800), think_s=(0.3, 1.5)),
    }


@dataclass(frozen=True)
class Prefix:
    """Shared prompts: `share` of the sessions carry one, drawn by rank (Zipf, exponent 1).

    A system prompt may be continued by one of `products` prompts, drawn by rank, and that by one of
    `tenants` prompts. A user keeps its tenant.
    """

    share: float = 0.2
    tokens: tuple[int, ...] = (800, 1200, 2000)
    products: int = 0
    product_tokens: int = 400
    tenants: int = 0
    tenant_tokens: int = 200


@dataclass(frozen=True)
class Common:
    """Common phrases: `share` of the requests begin with one, drawn by rank as prompts are."""

    share: float = 0
    tokens: tuple[int, ...] = (32, 64, 96, 128)


@dataclass(frozen=True)
class Rag:
    """Documents, cut into chunks, and requests that retrieve chunks."""

    share: float = 0  # requests of other sources that retrieve; requests of source rag always do
    documents: int = 100
    document_tokens: tuple[int, int] | None = None
    # none: 4,000 to 12,000, for models of more than 256 KiB per token 1,024 to 4,096
    chunk_tokens: int = 512
    chunk_mib: int = 256  # largest KV of a chunk, at `bytes_per_token`
    top_k: int = 5
    documents_by: Literal["zipf", "uniform"] = "zipf"
    chunks_by: Literal["zipf", "uniform"] = "zipf"
    ingest_s: float = 0  # documents arrive evenly over this time; 0: all before the first request
    users: UserKind = field(
        default_factory=lambda: UserKind(
            context=(64, 512),
            generation=(100, 400),
            think_s=(0.5, 5.0),
            continues=0.5,
            max_turns=10,
        )
    )  # of source rag


@dataclass(frozen=True)
class Qos:
    """Weights of the classes of service; a session draws its class once."""

    interactive: int = 15
    responsive: int = 35
    batch: int = 50


@dataclass(frozen=True)
class ReplayDefaults:
    """Settings that a replay of the trace takes unless its flags say otherwise."""

    model: str = "llama3.1-8b"
    gpu_mem_gb: float = 0
    cpu_mem_gb: float = 0
    storage_capacity_gb: float | None = None  # none: unlimited
    pace: Literal["asap", "closed", "open"] = "closed"
    generation_mode: Literal["none", "fast", "realistic"] = "none"
    decode: Literal["reread", "once", "none"] = "none"  # decode reads that are replayed
    max_concurrent_allocs: int | None = None  # none, 0: any number
    duration_s: float | None = None  # none: to the trace's end


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a trace, except the content of its input files."""

    seed: int = 0
    tokenizer: str = "tekken"
    users: int = 50
    session_rate: float = 0  # new sessions per second; 0: a user begins one after another
    burstiness: float = 1  # shape of the gamma law of gaps: 1 (Poisson), 0.5, 0.25 or 0.1
    hourly_rates: tuple[float, ...] = ()  # sessions per second in each hour, repeated
    think_s: tuple[float, float] = (0.5, 5.0)  # uniform pause before a ShareGPT user's requests
    duration_s: float = 0  # requests arrive before this time; 0: no limit
    requests: int = 0  # the first N requests by arrival; 0: all
    history: Literal["all", "previous"] = "all"
    context_growth: bool = False  # later turns add the last answer and a question to the prompt
    block_tokens: int = 0  # cut a session's tokens into blocks of this size; 0: one object per turn
    save_decode: bool = False  # store the KV of generated tokens, too
    decode_reads: bool | None = None  # none: in the trace, but not replayed; not for blocks
    decode_batch: int = 32  # tokens generated per decode read
    decode_token_ms: float = 30  # nominal pace, for the trace's times
    decode_max_context: int = 0  # no decode ops for turns of more context tokens; 0: no limit
    bytes_per_token: int = 131072  # KV of the intended model; only sizes RAG's chunks
    mix: Mix = field(default_factory=Mix)
    qos: Qos = field(default_factory=Qos)
    prefix: Prefix = field(default_factory=Prefix)
    common: Common = field(default_factory=Common)
    sharegpt: ShareGPTFile = field(default_factory=ShareGPTFile)
    personas: Mapping[str, Persona] = field(default_factory=_default_personas)
    rag: Rag = field(default_factory=Rag)
    replay: ReplayDefaults = field(default_factory=ReplayDefaults)

    @property
    def open_loop(self) -> bool:
        """Whether sessions arrive at a rate, not when their users are free."""
        return bool(self.session_rate or self.hourly_rates)

    @property
    def weights(self) -> dict[str, int]:
        """Weight of each source that has one."""
        given = {name: weight for name, weight in asdict(self.mix).items() if weight}
        return given or ({"sharegpt": 1} if self.sharegpt.path else {})

    @property
    def retrieves(self) -> bool:
        """Whether the workload has documents."""
        return bool(self.rag.share or "rag" in self.weights)

    @property
    def documents(self) -> int:
        """Number of documents, each a user of its own."""
        return self.rag.documents if self.retrieves else 0

    @property
    def rereads(self) -> bool:
        """Whether decoding reads the request's own objects back."""
        return not self.block_tokens if self.decode_reads is None else self.decode_reads

    def check(self) -> None:
        """Refuse values that make no trace.

        Raises:
            InputError: a value does not fit; names its key, the value and what it must be.
        """
        for demand in _list_demands(self):
            if not demand.is_met:
                value: Any = self
                for name in demand.key.split("."):
                    value = value[name] if isinstance(value, Mapping) else getattr(value, name)
                if is_dataclass(value) and not isinstance(value, type):
                    value = asdict(value)
                raise InputError(
                    f"recipe key {demand.key} = {quote_value(value)} must be {demand.wanted}",
                )


class _Demand(NamedTuple):
    """A demand on the value of a key: whether it is met, and in words what the value must be."""

    key: str
    is_met: bool
    wanted: str


_COUNT = "from 0 to 2^31 - 1"
_WEIGHT = "weights below 2^31, not all of them 0"


def _list_demands(recipe: Recipe) -> Iterator[_Demand]:
    """List the demands on a recipe, in the order of its keys."""
    yield from _load_demands(recipe)
    yield from _request_demands(recipe)
    for name, table in (("mix", recipe.mix), ("qos", recipe.qos)):
        weights = list(asdict(table).values())
        has_weight = name == "mix" or sum(weights) > 0
        yield _Demand(name, all(0 <= weight < 2**31 for weight in weights) and has_weight, _WEIGHT)
    yield from _prefix_demands(recipe)
    for name in ("max_conversations", "max_context_tokens", "max_generation_tokens"):
        yield _Demand(f"sharegpt.{name}", 0 <= getattr(recipe.sharegpt, name) < 2**31, _COUNT)
    for name, persona in recipe.personas.items():
        yield _Demand(f"personas.{name}.weight", 0 <= persona.weight < 2**31, _COUNT)
        yield from _user_demands(f"personas.{name}", persona)
    has_persona = any(persona.weight for persona in recipe.personas.values())
    yield _Demand("personas", not recipe.mix.personas or has_persona, _WEIGHT)
    yield from _rag_demands(recipe.rag)
    yield from _replay_demands(recipe.replay)


def _load_demands(recipe: Recipe) -> Iterator[_Demand]:
    """List the demands on users, arrivals and limits."""
    rates = recipe.hourly_rates
    yield _Demand("seed", 0 <= recipe.seed < 2**64, "from 0 to 2^64 - 1")
    yield _Demand("users", 1 <= recipe.users < 2**31, "from 1 to 2^31 - 1")
    yield _Demand(
        "session_rate",
        0 <= recipe.session_rate <= 1e9,
        "from 0 to 1e9 sessions per second",
    )
    yield _Demand(
        "burstiness",
        recipe.burstiness in SHAPES,
        f"one of {', '.join(map(str, SHAPES))}",
    )
    yield _Demand(
        "burstiness",
        recipe.burstiness == 1 or recipe.open_loop,
        "1 without session_rate or hourly_rates, as no gaps are drawn",
    )
    yield _Demand(
        "hourly_rates",
        all(0 <= rate <= 1e6 for rate in rates),
        "from 0 to 1e6 sessions per second",
    )
    has_rate = not rates or any(rate >= 1e-6 for rate in rates)
    yield _Demand("hourly_rates", has_rate, "rates with at least one from 1e-6")
    yield _Demand(
        "hourly_rates",
        not (rates and recipe.session_rate),
        "left out if session_rate is given",
    )
    yield _demand_range("think_s", recipe.think_s, 0, 1e6)
    is_duration = recipe.duration_s == 0 or 1e-9 <= recipe.duration_s <= 1e9
    yield _Demand("duration_s", is_duration, "0 or from 1e-9 to 1e9 seconds")


def _request_demands(recipe: Recipe) -> Iterator[_Demand]:
    """List the demands on requests, blocks and decoding."""
    for name in ("requests", "decode_max_context", "block_tokens"):
        yield _Demand(name, 0 <= getattr(recipe, name) < 2**31, _COUNT)
    is_chained = recipe.history == "all" or not recipe.block_tokens
    yield _Demand(
        "history",
        is_chained,
        "all with block_tokens, as a block stands for all before it",
    )
    yield _Demand("decode_batch", 1 <= recipe.decode_batch < 2**31, "from 1 to 2^31 - 1")
    yield _Demand("decode_token_ms", 0 <= recipe.decode_token_ms <= 1e6, "from 0 to 1e6")
    yield _Demand("bytes_per_token", 1 <= recipe.bytes_per_token < 2**40, "from 1 to 2^40 - 1")


def _replay_demands(replay: ReplayDefaults) -> Iterator[_Demand]:
    for name in ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb"):
        yield _Demand(f"replay.{name}", 0 <= (getattr(replay, name) or 0) < 2**33, "0 GiB or more")
    allocs = replay.max_concurrent_allocs
    duration_s = replay.duration_s
    yield _Demand("replay.max_concurrent_allocs", allocs is None or 0 <= allocs < 2**31, _COUNT)
    yield _Demand(
        "replay.duration_s",
        duration_s is None or 0 < duration_s < 1e9,
        "seconds, more than 0",
    )


def _demand_range(name: str, values: tuple[float, float], low: float, high: float) -> _Demand:
    wanted = f"[low, high] with {low:g} <= low <= high <= {high:g}"
    return _Demand(name, low <= values[0] <= values[1] <= high, wanted)


def _prefix_demands(recipe: Recipe) -> Iterator[_Demand]:
    for name, table in (("prefix", recipe.prefix), ("common", recipe.common)):
        is_positive = all(0 < tokens < 2**31 for tokens in table.tokens)
        yield _Demand(f"{name}.share", 0 <= table.share <= 1, "from 0 to 1")
        yield _Demand(f"{name}.tokens", is_positive, "token counts from 1 to 2^31 - 1")
        is_given = bool(table.tokens) or table.share == 0
        yield _Demand(f"{name}.tokens", is_given, f"given if {name}.share is not 0")
    prefix = recipe.prefix
    for name in ("products", "tenants"):
        yield _Demand(f"prefix.{name}", 0 <= getattr(prefix, name) <= 10**6, "from 0 to 1e6")
    prompts = len(prefix.tokens) * max(prefix.products, 1) * max(prefix.tenants, 1)
    yield _Demand("prefix.tenants", prompts <= 10**7, "smaller: at most 1e7 prompts in all")
    for name in ("product_tokens", "tenant_tokens"):
        yield _Demand(f"prefix.{name}", 1 <= getattr(prefix, name) <= 10**9, "from 1 to 1e9")


def _user_demands(name: str, kind: UserKind) -> Iterator[_Demand]:
    yield _demand_range(f"{name}.context", kind.context, 1, 10**8)
    yield _demand_range(f"{name}.generation", kind.generation, 0, 10**8)
    yield _demand_range(f"{name}.question", kind.question, 1, 10**8)
    yield _demand_range(f"{name}.think_s", kind.think_s, 0, 1e6)
    yield _Demand(f"{name}.continues", 0 <= kind.continues <= 1, "from 0 to 1")
    yield _Demand(f"{name}.max_turns", 1 <= kind.max_turns <= 10**4, "from 1 to 1e4")


def _rag_demands(rag: Rag) -> Iterator[_Demand]:
    yield _Demand("rag.share", 0 <= rag.share <= 1, "from 0 to 1")
    yield _Demand("rag.documents", 1 <= rag.documents <= 10**6, "from 1 to 1e6")
    yield _demand_range("rag.document_tokens", rag.document_tokens or (1, 1), 1, 10**8)
    yield _Demand("rag.chunk_tokens", 1 <= rag.chunk_tokens < 2**31, "from 1 to 2^31 - 1")
    chunks = rag.documents * (rag.document_tokens or (0, 12_000))[1] // rag.chunk_tokens
    yield _Demand("rag.documents", chunks <= 10**8, "smaller: at most 1e8 chunks in all")
    yield _Demand("rag.chunk_mib", 1 <= rag.chunk_mib < 2**31, "from 1 to 2^31 - 1")
    yield _Demand("rag.top_k", 1 <= rag.top_k <= 1000, "from 1 to 1000")
    yield _Demand("rag.ingest_s", 0 <= rag.ingest_s <= 1e9, "from 0 to 1e9 seconds")
    yield from _user_demands("rag.users", rag.users)
