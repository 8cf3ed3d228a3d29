"""Recipes: everything that decides a trace, with every default and limit."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from tracegen.errors import InputError, quote_value

SHAPES = (1, 0.5, 0.25, 0.1)  # of the gamma laws whose tables are shipped; 1 needs none

Count = Annotated[int, Meta(ge=0, lt=2**31)]
Positive = Annotated[int, Meta(ge=1, lt=2**31)]
Tokens = Annotated[int, Meta(ge=1, le=10**8)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Pause = Annotated[float, Meta(ge=0, le=1e6)]  # seconds
Rate = Annotated[float, Meta(ge=0, le=1e6)]  # sessions per second
Gib = Annotated[float, Meta(ge=0, lt=2**33)]


@dataclass(frozen=True)
class Mix:
    """Weights of the sources of users; all 0: ShareGPT alone, if a file is named."""

    sharegpt: Count = 0
    personas: Count = 0
    rag: Count = 0


@dataclass(frozen=True)
class ShareGPTFile:
    """A file of conversations in ShareGPT's format, sampled by seed."""

    path: str = ""
    licence: str = "not stated"  # of the file; goes into the trace's metadata
    max_conversations: Count = 0  # 0: all
    max_context_tokens: Count = 0  # clamps the prompt of a turn; 0: no limit
    max_generation_tokens: Count = 0  # clamps the answer of a turn; 0: no limit
    glue: bool = True  # join the segments that long conversations were split into


@dataclass(frozen=True)
class UserKind:
    """A kind of user.

    Each user draws one length from each range, uniformly, and each turn a quarter to the whole of
    it.
    """

    context: tuple[Tokens, Tokens] = (512, 4096)  # tokens
    generation: tuple[Count, Count] = (50, 200)  # tokens
    think_s: tuple[Pause, Pause] = (0.1, 0.5)
    continues: Share = 0.8  # probability of one more turn
    max_turns: Annotated[int, Meta(ge=1, le=10**4)] = 50
    question: tuple[Tokens, Tokens] = (16, 256)  # tokens that a later turn adds, with context_growth


@dataclass(frozen=True)
class Persona(UserKind):
    """One of several kinds of user, with its weight among them."""

    weight: Count = 1


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

    share: Share = 0.2
    tokens: tuple[Positive, ...] = (800, 1200, 2000)
    products: Annotated[int, Meta(ge=0, le=10**6)] = 0
    product_tokens: Annotated[int, Meta(ge=1, le=10**9)] = 400
    tenants: Annotated[int, Meta(ge=0, le=10**6)] = 0
    tenant_tokens: Annotated[int, Meta(ge=1, le=10**9)] = 200


@dataclass(frozen=True)
class Common:
    """Common phrases: `share` of the requests begin with one, drawn by rank as prompts are."""

    share: Share = 0
    tokens: tuple[Positive, ...] = (32, 64, 96, 128)


@dataclass(frozen=True)
class Rag:
    """Documents, cut into chunks, and requests that retrieve chunks."""

    share: Share = 0  # requests of other sources that retrieve; requests of source rag always do
    documents: Annotated[int, Meta(ge=1, le=10**6)] = 100
    document_tokens: tuple[Tokens, Tokens] | None = None
    # none: 4,000 to 12,000, for models of more than 256 KiB per token 1,024 to 4,096
    chunk_tokens: Positive = 512
    chunk_mib: Positive = 256  # largest KV of a chunk, at `bytes_per_token`
    top_k: Annotated[int, Meta(ge=1, le=1000)] = 5
    documents_by: Literal["zipf", "uniform"] = "zipf"
    chunks_by: Literal["zipf", "uniform"] = "zipf"
    ingest_s: Seconds = 0  # documents arrive evenly over this time; 0: all before the first request
    users: UserKind = field(
        default_factory=lambda: UserKind(
            context=(64, 512), generation=(100, 400), think_s=(0.5, 5.0), continues=0.5, max_turns=10
        )
    )  # of source rag


@dataclass(frozen=True)
class Qos:
    """Weights of the classes of service; a session draws its class once."""

    interactive: Count = 15
    responsive: Count = 35
    batch: Count = 50


@dataclass(frozen=True)
class ReplayDefaults:
    """Settings that a replay of the trace takes unless its flags say otherwise."""

    model: str = "llama3.1-8b"
    gpu_mem_gb: Gib = 0
    cpu_mem_gb: Gib = 0
    storage_capacity_gb: Gib | None = None  # none: unlimited
    pace: Literal["asap", "closed", "open"] = "closed"
    generation_mode: Literal["none", "fast", "realistic"] = "none"
    decode: Literal["reread", "once", "none"] = "none"  # decode reads that are replayed
    max_concurrent_allocs: Count | None = None  # none, 0: any number
    duration_s: Annotated[float, Meta(gt=0, lt=1e9)] | None = None  # none: to the trace's end


@dataclass(frozen=True)
class Decoding:
    """Decode ops of a trace, and the trace's nominal pace of generation."""

    save_decode: bool = False  # store the KV of generated tokens, too
    decode_reads: bool | None = None  # none: in the trace, but not replayed; not for blocks
    decode_batch: Positive = 32  # tokens generated per decode read
    decode_token_ms: Annotated[float, Meta(ge=0, le=1e6)] = 30  # for the trace's times
    decode_max_context: Count = 0  # no decode ops for turns of more context tokens; 0: no limit


@dataclass(frozen=True)
class Recipe(Decoding):
    """Everything that decides a trace, except the content of its input files."""

    seed: Annotated[int, Meta(ge=0)] = 0
    tokenizer: str = "tekken"
    users: Positive = 50
    session_rate: Annotated[float, Meta(ge=0, le=1e9)] = 0  # new sessions per second; 0: one after another
    burstiness: float = 1  # shape of the gamma law of gaps: 1 (Poisson), 0.5, 0.25 or 0.1
    hourly_rates: tuple[Rate, ...] = ()  # sessions per second in each hour, repeated
    think_s: tuple[Pause, Pause] = (0.5, 5.0)  # uniform pause before a ShareGPT user's requests
    duration_s: Seconds = 0  # requests arrive before this time; 0: no limit
    requests: Count = 0  # the first N requests by arrival; 0: all
    history: Literal["all", "previous"] = "all"
    context_growth: bool = False  # later turns add the last answer and a question to the prompt
    block_tokens: Count = 0  # cut a session's tokens into blocks of this size; 0: one object per turn
    bytes_per_token: Annotated[int, Meta(ge=1, lt=2**40)] = 131072  # only sizes RAG's chunks
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
        """Refuse values that fit their keys and make no trace together."""
        for key, low, high in _list_ranges(self):
            if low > high:
                raise InputError(f"recipe key {key} = [{low}, {high}] must be [low, high]")
        for key, is_met, wanted in _list_demands(self):
            if not is_met:
                value: Any = self
                for name in key.split("."):
                    value = value[name] if isinstance(value, Mapping) else getattr(value, name)
                value = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
                raise InputError(f"recipe key {key} = {quote_value(value)} must be {wanted}")


def _list_ranges(recipe: Recipe) -> Iterator[tuple[str, float, float]]:
    """Yield each [low, high] of a recipe, by its key."""
    kinds: dict[str, UserKind] = {f"personas.{name}": persona for name, persona in recipe.personas.items()}
    for key, kind in (kinds | {"rag.users": recipe.rag.users}).items():
        for name in ("context", "generation", "question", "think_s"):
            yield f"{key}.{name}", *getattr(kind, name)
    yield "think_s", *recipe.think_s
    if recipe.rag.document_tokens:
        yield "rag.document_tokens", *recipe.rag.document_tokens


def _list_demands(recipe: Recipe) -> Iterator[tuple[str, bool, str]]:
    """Yield demands that no type of a single key can make: key, whether it is met, what it must be."""
    rates = recipe.hourly_rates
    yield "seed", recipe.seed < 2**64, "from 0 to 2^64 - 1"
    shapes = ", ".join(map(str, SHAPES))
    yield "burstiness", recipe.burstiness in SHAPES, f"one of {shapes}"
    is_drawn = recipe.burstiness == 1 or recipe.open_loop
    yield "burstiness", is_drawn, "1 without session_rate or hourly_rates, as no gaps are drawn"
    has_rate = not rates or any(rate >= 1e-6 for rate in rates)
    yield "hourly_rates", has_rate, "rates with at least one from 1e-6"
    yield "hourly_rates", not (rates and recipe.session_rate), "left out if session_rate is given"
    yield "duration_s", recipe.duration_s == 0 or recipe.duration_s >= 1e-9, "0 or from 1e-9 seconds"
    is_chained = recipe.history == "all" or not recipe.block_tokens
    yield "history", is_chained, "all with block_tokens, as a block stands for all before it"
    yield "qos", any(asdict(recipe.qos).values()), "weights, not all of them 0"
    has_persona = any(persona.weight for persona in recipe.personas.values())
    yield "personas", not recipe.mix.personas or has_persona, "weights, not all of them 0"
    prefix, rag = recipe.prefix, recipe.rag
    for name, table in (("prefix", prefix), ("common", recipe.common)):
        yield f"{name}.tokens", bool(table.tokens) or not table.share, f"given if {name}.share is not 0"
    prompts = len(prefix.tokens) * max(prefix.products, 1) * max(prefix.tenants, 1)
    yield "prefix.tenants", prompts <= 10**7, "smaller: at most 1e7 prompts in all"
    chunks = rag.documents * (rag.document_tokens or (0, 12_000))[1] // rag.chunk_tokens
    yield "rag.documents", chunks <= 10**8, "smaller: at most 1e8 chunks in all"
