"""Recipes: what a trace is made of. TOML → frozen dataclasses, checked once; every default stands here."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Literal

from tracegen.errors import InputError, quote_value

SHAPES = (1, 0.5, 0.25, 0.1)  # of the gamma laws whose quantile tables are shipped


@dataclass(frozen=True)
class Mix:
    """Weights of the sources that users are drawn from; all 0: ShareGPT alone, where a file is named."""

    sharegpt: int = 0
    personas: int = 0
    rag: int = 0


@dataclass(frozen=True)
class ShareGPT:
    """Conversations of a file in ShareGPT's format, sampled by seed."""

    path: str = ""
    licence: str = "not stated"  # of the file; travels in the trace's metadata
    max_conversations: int = 0  # 0: all
    max_context_tokens: int = 0  # clamps a turn's prompt; 0: no limit
    max_generation_tokens: int = 0  # clamps a turn's answer; 0: no limit
    glue: bool = True  # join the segments that long conversations were split into


@dataclass(frozen=True)
class Person:
    """A kind of user. Ranges are drawn once per user, uniformly; a turn takes a quarter to the whole of its user's."""

    context: tuple[int, int] = (512, 4096)  # tokens
    generation: tuple[int, int] = (50, 200)  # tokens
    think_s: tuple[float, float] = (0.1, 0.5)
    continues: float = 0.8  # probability of one more turn
    max_turns: int = 50
    question: tuple[int, int] = (16, 256)  # tokens that a later turn adds where context grows


@dataclass(frozen=True)
class Persona(Person):
    """One of several kinds of user, and its weight among them."""

    weight: int = 1


def _personas() -> dict[str, Persona]:
    """The three of kv-cache.py."""
    return {
        "chatbot": Persona(),
        "coding": Persona(context=(4096, 25000), generation=(100, 500), think_s=(0.2, 1.0)),
        "document": Persona(context=(4096, 16384), generation=(200, 800), think_s=(0.3, 1.5)),
    }


@dataclass(frozen=True)
class Prefix:
    """Shared prompts: `share` of the sessions carry one, drawn by rank (Zipf, exponent 1) from `tokens`.

    Below each system prompt stand `products` further prompts (by rank, too), below each of these `tenants`; a user is
    of one tenant for good.
    """

    share: float = 0.2
    tokens: tuple[int, ...] = (800, 1200, 2000)
    products: int = 0
    product_tokens: int = 400
    tenants: int = 0
    tenant_tokens: int = 200


@dataclass(frozen=True)
class Common:
    """Common phrases: `share` of the requests begin with one, drawn by rank (Zipf, exponent 1) from `tokens`."""

    share: float = 0
    tokens: tuple[int, ...] = (32, 64, 96, 128)


@dataclass(frozen=True)
class Rag:
    """Documents cut into chunks, and the requests that retrieve some."""

    share: float = 0  # of the requests of other sources that retrieve; those of source rag always do
    documents: int = 100
    document_tokens: tuple[int, int] | None = None  # none: 4,000 to 12,000; above 256 KiB a token 1,024 to 4,096
    chunk_tokens: int = 512
    chunk_mib: int = 256  # a chunk's KV is at most this, at `bytes_per_token`
    top_k: int = 5
    documents_by: Literal["zipf", "uniform"] = "zipf"
    chunks_by: Literal["zipf", "uniform"] = "zipf"
    ingest_s: float = 0  # documents arrive evenly over this time; 0: all before the first request
    users: Person = field(
        default_factory=lambda: Person(
            context=(64, 512), generation=(100, 400), think_s=(0.5, 5.0), continues=0.5, max_turns=10
        )
    )  # those of source rag


@dataclass(frozen=True)
class Qos:
    """Relative weights of the classes, drawn once per session."""

    interactive: int = 15
    responsive: int = 35
    batch: int = 50


@dataclass(frozen=True)
class Replay:
    """Defaults that a replay of this trace takes where its flags say nothing."""

    model: str = "llama3.1-8b"
    gpu_mem_gb: float = 0
    cpu_mem_gb: float = 0
    storage_capacity_gb: float | None = None  # none: unlimited
    pace: Literal["asap", "closed", "open"] = "closed"
    generation_mode: Literal["none", "fast", "realistic"] = "none"
    max_concurrent_allocs: int | None = None  # none, 0: any number
    duration_s: float | None = None  # none: to the trace's end


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a trace, but for the content of its input files."""

    seed: int = 0
    tokenizer: str = "tekken"
    users: int = 50
    session_rate: float = 0  # new sessions per second; 0: a user begins the next when the last has ended
    burstiness: float = 1  # shape of the gamma law of gaps between sessions: 1 (Poisson), 0.5, 0.25 or 0.1
    hourly_rates: tuple[float, ...] = ()  # new sessions per second in each hour, over and over; instead of session_rate
    think_s: tuple[float, float] = (0.5, 5.0)  # uniform pause before each request of a ShareGPT user
    duration_s: float = 0  # requests arrive before this time; 0: no limit
    requests: int = 0  # the first N requests by arrival; 0: all
    history: Literal["all", "previous"] = "all"
    context_growth: bool = False  # a turn's prompt holds the last answer, and after the first turn only a question
    block_tokens: int = 0  # cut what a request prefills into blocks of so many tokens; 0: one object per turn
    save_decode: bool = False  # store the KV of generated tokens, too
    decode_reads: bool | None = None  # none: yes, but not for blocks, whose KV is loaded once
    decode_batch: int = 32  # tokens generated per decode read
    decode_token_ms: float = 30  # nominal pace, for the trace's times
    decode_max_context: int = 0  # no decode ops for turns of more context tokens; 0: no limit
    bytes_per_token: int = 131072  # of the model in mind; decides the size of RAG's chunks only
    mix: Mix = field(default_factory=Mix)
    qos: Qos = field(default_factory=Qos)
    prefix: Prefix = field(default_factory=Prefix)
    common: Common = field(default_factory=Common)
    sharegpt: ShareGPT = field(default_factory=ShareGPT)
    personas: Mapping[str, Persona] = field(default_factory=_personas)
    rag: Rag = field(default_factory=Rag)
    replay: Replay = field(default_factory=Replay)

    @property
    def open_loop(self) -> bool:
        """Whether sessions arrive by a rate, not when their users are free."""
        return bool(self.session_rate or self.hourly_rates)

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each source that has one."""
        given = {name: weight for name, weight in asdict(self.mix).items() if weight}
        return given or ({"sharegpt": 1} if self.sharegpt.path else {})

    @property
    def retrieves(self) -> bool:
        """Whether there are documents."""
        return bool(self.rag.share or "rag" in self.weights)

    @property
    def documents(self) -> int:
        """How many documents, each a user of its own."""
        return self.rag.documents if self.retrieves else 0

    @property
    def rereads(self) -> bool:
        """Whether decoding reads the request's own objects back."""
        return not self.block_tokens if self.decode_reads is None else self.decode_reads

    def check(self) -> None:
        """Refuse values that make no trace.

        Raises:
            InputError: names the first such key, its value and what it must be.
        """
        for name, holds, demand in _demands(self):
            if not holds:
                value: Any = self
                for part in name.split("."):
                    value = value[part] if isinstance(value, Mapping) else getattr(value, part)
                plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
                raise InputError(f"recipe key {name} = {quote_value(plain)} must be {demand}.")


Demand = tuple[str, bool, str]
_COUNT = "from 0 to 2^31 - 1"
_WEIGHT = "weights below 2^31, not all of them 0"


def _demands(recipe: Recipe) -> Iterator[Demand]:
    """(key, whether it holds, what its value must be), in the order of the recipe."""
    r = recipe
    yield "seed", 0 <= r.seed < 2**64, "from 0 to 2^64 - 1"
    yield "users", 1 <= r.users < 2**31, "from 1 to 2^31 - 1"
    yield "session_rate", 0 <= r.session_rate <= 1e9, "from 0 to 1e9 sessions per second"
    yield "burstiness", r.burstiness in SHAPES, f"one of {', '.join(map(str, SHAPES))}"
    yield "burstiness", r.burstiness == 1 or r.open_loop, "1 without session_rate or hourly_rates: no gaps to shape"
    rates = r.hourly_rates
    yield "hourly_rates", all(0 <= one <= 1e6 for one in rates), "rates from 0 to 1e6 sessions per second"
    yield "hourly_rates", not rates or any(one >= 1e-6 for one in rates), "rates, one of them at least 1e-6"
    yield "hourly_rates", not (rates and r.session_rate), "given without session_rate"
    yield _range("think_s", r.think_s, 0, 1e6)
    yield "duration_s", r.duration_s == 0 or 1e-9 <= r.duration_s <= 1e9, "0 or from 1e-9 to 1e9 seconds"
    for name in ("requests", "decode_max_context", "block_tokens"):
        yield name, 0 <= getattr(r, name) < 2**31, _COUNT
    yield "history", r.history == "all" or not r.block_tokens, "all with block_tokens: blocks are chained to their past"
    yield "decode_batch", 1 <= r.decode_batch < 2**31, "from 1 to 2^31 - 1"
    yield "decode_token_ms", 0 <= r.decode_token_ms <= 1e6, "from 0 to 1e6"
    yield "bytes_per_token", 1 <= r.bytes_per_token < 2**40, "from 1 to 2^40 - 1"
    for name, table in (("mix", r.mix), ("qos", r.qos)):
        weights = list(asdict(table).values())
        yield name, all(0 <= n < 2**31 for n in weights) and (name == "mix" or sum(weights) > 0), _WEIGHT
    yield from _prefix_demands(r)
    for name in ("max_conversations", "max_context_tokens", "max_generation_tokens"):
        yield f"sharegpt.{name}", 0 <= getattr(r.sharegpt, name) < 2**31, _COUNT
    for name, persona in r.personas.items():
        yield f"personas.{name}.weight", 0 <= persona.weight < 2**31, _COUNT
        yield from _persona_demands(f"personas.{name}", persona)
    yield "personas", not r.mix.personas or any(p.weight for p in r.personas.values()), _WEIGHT
    yield from _rag_demands(r.rag)
    for name in ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb"):
        yield f"replay.{name}", 0 <= (getattr(r.replay, name) or 0) < 2**33, "0 GiB or more"
    allocs, duration_s = r.replay.max_concurrent_allocs, r.replay.duration_s
    yield "replay.max_concurrent_allocs", allocs is None or 0 <= allocs < 2**31, _COUNT
    yield "replay.duration_s", duration_s is None or 0 < duration_s < 1e9, "seconds, more than 0"


def _range(name: str, values: tuple[float, float], low: float, high: float) -> Demand:
    return name, low <= values[0] <= values[1] <= high, f"[low, high] with {low:g} <= low <= high <= {high:g}"


def _prefix_demands(recipe: Recipe) -> Iterator[Demand]:
    for name, table in (("prefix", recipe.prefix), ("common", recipe.common)):
        yield f"{name}.share", 0 <= table.share <= 1, "from 0 to 1"
        yield f"{name}.tokens", all(0 < n < 2**31 for n in table.tokens), "token counts from 1 to 2^31 - 1"
        yield f"{name}.tokens", bool(table.tokens) or table.share == 0, f"given where {name}.share is not 0"
    for name in ("products", "tenants"):
        yield f"prefix.{name}", 0 <= getattr(recipe.prefix, name) <= 10**6, "from 0 to 1e6"
    nodes = len(recipe.prefix.tokens) * max(recipe.prefix.products, 1) * max(recipe.prefix.tenants, 1)
    yield "prefix.tenants", nodes <= 10**7, "fewer: there are to be at most 1e7 prompts in all"
    for name in ("product_tokens", "tenant_tokens"):
        yield f"prefix.{name}", 1 <= getattr(recipe.prefix, name) <= 10**9, "from 1 to 1e9"


def _persona_demands(name: str, persona: Person) -> Iterator[Demand]:
    yield _range(f"{name}.context", persona.context, 1, 10**8)
    yield _range(f"{name}.generation", persona.generation, 0, 10**8)
    yield _range(f"{name}.question", persona.question, 1, 10**8)
    yield _range(f"{name}.think_s", persona.think_s, 0, 1e6)
    yield f"{name}.continues", 0 <= persona.continues <= 1, "from 0 to 1"
    yield f"{name}.max_turns", 1 <= persona.max_turns <= 10**4, "from 1 to 1e4"


def _rag_demands(rag: Rag) -> Iterator[Demand]:
    yield "rag.share", 0 <= rag.share <= 1, "from 0 to 1"
    yield "rag.documents", 1 <= rag.documents <= 10**6, "from 1 to 1e6"
    yield _range("rag.document_tokens", rag.document_tokens or (1, 1), 1, 10**8)
    yield "rag.chunk_tokens", 1 <= rag.chunk_tokens < 2**31, "from 1 to 2^31 - 1"
    chunks = rag.documents * (rag.document_tokens or (0, 12_000))[1] // rag.chunk_tokens
    yield "rag.documents", chunks <= 10**8, "fewer: there are to be at most 1e8 chunks in all"
    yield "rag.chunk_mib", 1 <= rag.chunk_mib < 2**31, "from 1 to 2^31 - 1"
    yield "rag.top_k", 1 <= rag.top_k <= 1000, "from 1 to 1000"
    yield "rag.ingest_s", 0 <= rag.ingest_s <= 1e9, "from 0 to 1e9 seconds"
    yield from _persona_demands("rag.users", rag.users)
