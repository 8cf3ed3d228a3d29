"""Arrangements: tables of cache rules, and the values that they may contain.

`docs/arrangements.md` specifies what each rule does.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self, get_args

from msgspec import Meta

from replayer.record.options import TIERS, Copies, Down, LookupRule, Policy, Recency, StorePlace, Tail, Touch, Up
from tracegen.errors import InputError

# The setting that names an arrangement.
SETTING: Final = "arrangement"
Source = Literal["user", "multi_turn", "system", "common", "rag"]
Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
Whole = Annotated[int, Meta(ge=1, lt=1 << 31)]
Steps = Annotated[int, Meta(ge=1, le=10_000)]  # a plan walks through each, also when nothing else happens
# The compiled core counts the touches of an object in a tier up to here (`TOUCHES`).
Touches = Annotated[int, Meta(ge=1, le=127)]
Share = Annotated[float, Meta(ge=0, le=1)]
SomeShare = Annotated[float, Meta(gt=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Word = Annotated[str, Meta(min_length=1)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]


@dataclass(frozen=True)
class TierRules:
    """The rules of one tier; the fields are the keys of its table.

    Attributes:
        down: when the tier gets an object of the next faster tier.
        touches: with `on-touch`, the number of touches in the faster tier.
        admit_touches: the number of touches from which the tier takes an object; 1: always.
        admit_table: the number of keys whose touches are counted, the most recent ones; 0: all.
        up: what a hit in the tier does to the object.
        policy: which object is evicted first, one of POLICIES.
        high: the share of the usable bytes above which the tier evicts in the background; 1: never.
        low: the share of the usable bytes at which it stops.
        evict_share: the share of the used bytes that it evicts instead; 0: down to `low`.
        fetch_tokens: a request asks the tier only if it misses this many tokens or more.
        fetch_in_flight: tokens that requests in flight may ask the tier for; 0: any number.
        fetch_share: the same, as a share of the tokens by which cpu is larger than gpu; 0: no such
            limit. If both limits are set, both hold.
        user_quota: the share of the usable bytes that one user's objects may take; 1: no quota.
    """

    down: Down = "on-evict"
    touches: Touches = 2
    admit_touches: Whole = 1
    admit_table: Count = 0
    up: Up = "stay"
    policy: Policy = "lru"
    high: SomeShare = 1.0
    low: Share = 1.0
    evict_share: Share = 0.0
    fetch_tokens: Count = 0
    fetch_in_flight: Count = 0
    fetch_share: Share = 0.0
    user_quota: SomeShare = 1.0

    def __post_init__(self) -> None:
        for name in ("high", "low", "evict_share", "fetch_share", "user_quota"):
            check_decimals(name, getattr(self, name))
        if self.evict_share and self.high == 1:
            problem = f"evict_share is {self.evict_share:g}, and high is 1, so nothing is evicted"
            raise InputError(problem, "set high below 1")
        if self.high < 1 and not self.evict_share and self.low > self.high:
            problem = f"low is {self.low:g}, above high, {self.high:g}"
            raise InputError(problem, f"set low to {self.high:g} or less")


@dataclass(frozen=True)
class SchedulerRules:
    """The scheduler of a serving engine (`docs/serving.md`); the fields are the keys of its table.

    Attributes:
        max_num_seqs: requests that run at a time.
        max_num_batched_tokens: tokens that a step computes.
        step_ms: milliseconds of a step, apart from its tokens.
        tokens_per_s: tokens per second that steps compute.
        transfer_steps: steps that a load from cpu, or a store there, takes.
        read_steps: steps that a read of nvme takes.
        write_steps: steps that a write to nvme takes.
    """

    max_num_seqs: Whole = 128
    max_num_batched_tokens: Whole = 8192
    step_ms: Annotated[float, Meta(gt=0, le=1e6)] = 15.0
    tokens_per_s: Whole = 16384
    transfer_steps: Steps = 1
    read_steps: Steps = 1
    write_steps: Steps = 1

    def __post_init__(self) -> None:
        check_decimals("step_ms", self.step_ms)


def check_decimals(name: str, value: float) -> None:
    """Refuse numbers that compiled code would round: it counts millionths.

    Raises:
        InputError: a number has more than six decimals.
    """
    if Decimal(str(value)) * 10**6 % 1:
        raise InputError(f"{name} is {value:g}", "write at most six decimals")


@dataclass(frozen=True)
class EngineSource:
    """The release of an engine whose rules an arrangement describes.

    Attributes:
        engine: name of the engine.
        version: its release.
        commit: the revision of its source code, or the tag.
        date: the day of that release's files, else the day on which they were read: YYYY-MM-DD.
    """

    engine: Word
    version: Word
    commit: Word
    date: Day


@dataclass(frozen=True)
class ArrangementRecord:
    """The part of an arrangement that run.json records.

    Attributes:
        name: its name; `waterfall` or `spillover` if it has their rules, whatever its name is.
        rules: the keys that differ from the defaults; None: all rules are those of the name.
        promote: whether objects that are read move up from every tier.
    """

    name: str
    rules: dict[str, object] | None
    promote: bool


@dataclass(frozen=True)
class Arrangement:
    """The rules by which objects enter, move through and leave the tiers.

    Attributes:
        name: its name, or that of its file.
        description: what it is, in one line.
        source: the engine that it describes; None: it describes no engine.
        copies: whether one tier holds an object, or several may.
        place: where new objects go.
        touch: which copies of an object a hit touches.
        recency: the order of age among the objects of one prompt.
        lookup: whether objects hit one by one or as a prefix; `trace`: as the trace says.
        ttl_s: seconds after its last touch at which an object expires; 0: never.
        pin: sources whose objects are never evicted, as in a trace.
        chunk_tokens: tokens of a chunk in which prompts are stored; 0: as in the trace.
        tail: what becomes of a prompt's last chunk if the prompt ends inside it.
        unsaved_tokens: the number of an answer's last tokens whose KV is not stored.
        gpu: rules of the gpu tier.
        cpu: rules of the cpu tier.
        nvme: rules of the nvme tier.
        scheduler: of the engine; None: it has none, or plans do not follow it.

    Raises:
        InputError: a value is out of its range, or two rules contradict each other.
    """

    name: str
    description: str = ""
    source: EngineSource | None = None
    copies: Copies = "exclusive"
    place: StorePlace = "fastest"
    touch: Touch = "serving"
    recency: Recency = "op"
    lookup: LookupRule = "trace"
    ttl_s: Seconds = 0.0
    pin: tuple[Source, ...] = ()
    chunk_tokens: Count = 0
    tail: Tail = "drop"
    unsaved_tokens: Count = 0
    gpu: TierRules = field(default_factory=TierRules)
    cpu: TierRules = field(default_factory=TierRules)
    nvme: TierRules = field(default_factory=TierRules)
    scheduler: SchedulerRules | None = None

    def __post_init__(self) -> None:
        check_decimals("ttl_s", self.ttl_s)
        pinned = tuple(source for source in get_args(Source) if source in self.pin)
        object.__setattr__(self, "pin", pinned)  # equal rules are recorded alike
        for tier, rules in self.tiers().items():
            leaves_copy = {"down": rules.down != "on-evict", "up": rules.up in ("copy", "copy-top")}
            for key, is_copy in leaves_copy.items():
                if is_copy and self.copies == "exclusive":
                    raise InputError(
                        f"{tier}.{key} leaves a copy, and one tier holds an object",
                        f"set copies to inclusive, or leave {tier}.{key} out",
                    )
            if self.copies == "inclusive" and rules.up == "move":
                raise InputError(
                    f"{tier}.up is move, and several tiers may hold an object",
                    f"set copies to exclusive, or {tier}.up to stay, copy or copy-top",
                )

    def tiers(self) -> dict[str, TierRules]:
        """Return the rules of each tier by its name."""
        return {"gpu": self.gpu, "cpu": self.cpu, "nvme": self.nvme}

    def with_tiers(self, **changes: Any) -> Self:
        """Return the arrangement with these rules changed in every tier."""
        changed: dict[str, Any] = {tier: replace(rules, **changes) for tier, rules in self.tiers().items()}
        return replace(self, **changed)

    def with_promotion(self) -> Self:
        """Return the arrangement in which a hit moves the object to the fastest tier for it.

        Raises:
            InputError: several tiers may hold an object.
        """
        if self.copies == "inclusive":
            raise InputError(
                f"several tiers may hold an object under {self.name}, so nothing moves up",
                "leave it out",
                setting="promote",
            )
        return self.with_tiers(up="move")

    def obstacle_to_serving(self) -> str | None:
        """Return the rule that the engine's scheduler does not go with; None: plans may follow it."""
        if self.scheduler is None:
            return f"{self.name} has no scheduler"
        slower = TierRules(down="on-store", up="copy")
        for tier, known in {"gpu": TierRules(), "cpu": slower, "nvme": slower}.items():
            for rule, value in list_changes(self.tiers()[tier], known).items():
                return f"its scheduler knows no {tier}.{rule} = {value}"
        for rule in ("ttl_s", "pin"):
            if value := getattr(self, rule):
                return f"its scheduler knows no {rule} = {value}"
        return None

    def with_scheduler(self, *, serves: bool) -> Self:
        """Return the rules that count if plans follow the scheduler, or if they do not.

        The scheduler's blocks are the trace's, so that there are no chunks.
        """
        if serves:
            return replace(self, chunk_tokens=0)
        return replace(self, scheduler=None)

    def simplify(self) -> Self:
        """Return the arrangement with the default for each key that has no effect."""
        has_chunks = self.chunk_tokens > 0
        gpu = replace(self.gpu, up="stay", down="on-evict")  # no tier is faster
        return replace(
            self,
            touch=self.touch if self.copies == "inclusive" else "serving",
            tail=self.tail if has_chunks else "drop",
            unsaved_tokens=self.unsaved_tokens if has_chunks else 0,
            gpu=_simplify(gpu),
            cpu=_simplify(self.cpu),
            nvme=_simplify(self.nvme),
        )

    def to_table(self) -> dict[str, object]:
        """Return the keys whose values differ from the defaults, as TOML and run.json have them."""
        table = list_changes(self, _DEFAULT)
        for key in ("name", "description", "source"):
            table.pop(key, None)
        if self.scheduler:
            table["scheduler"] = asdict(self.scheduler)
        if self.pin:
            table["pin"] = list(self.pin)
        tiers = {tier: list_changes(rules, _DEFAULT.gpu) for tier, rules in self.tiers().items()}
        return table | {tier: changes for tier, changes in tiers.items() if changes}

    def check_order(self, *, is_known: bool) -> None:
        """Check that the policies can work in an order.

        Args:
            is_known: whether the order of all ops is known before the first one is decided.

        Raises:
            InputError: a policy needs to know it, and it is not known.
        """
        policies = {rules.policy for rules in self.tiers().values()}
        # Its victim is the object that is asked for last in the future.
        if "belady" in policies and not is_known:
            raise InputError(
                "must know all ops before the first one, and here each depends on the ones before",
                "pass `order=trace`",
                subject="belady",
                setting="policy",
            )

    def to_record(self) -> ArrangementRecord:
        """Return what run.json records.

        How objects are looked up is left out: it is a condition of its own.
        """
        table = replace(self.simplify(), lookup="trace").to_table()
        # Equal rules have one name in run.json and one fingerprint, whatever file they come from.
        for known in (WATERFALL, SPILLOVER):
            for promotes in (False, True):
                same = known.with_promotion() if promotes else known
                if table == same.simplify().to_table():
                    return ArrangementRecord(known.name, None, promotes)
        promotes = all(rules.up == "move" for rules in (self.cpu, self.nvme))
        return ArrangementRecord(self.name, table, promotes)


def _simplify(rules: TierRules) -> TierRules:
    has_low = rules.high < 1 and not rules.evict_share
    return replace(
        rules,
        touches=rules.touches if rules.down == "on-touch" else 2,
        admit_table=rules.admit_table if rules.admit_touches > 1 else 0,
        low=rules.low if has_low else 1.0,
    )


def list_changes(one: Any, usual: Any) -> dict[str, object]:
    """Return the fields of one dataclass that differ from those of another."""
    values = {item.name: getattr(one, item.name) for item in fields(one)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


_DEFAULT: Final = Arrangement("default")
# The default: one tier holds an object, and each tier evicts into the next slower one.
WATERFALL: Final = Arrangement("waterfall")
# New objects go to the fastest tier with room, and nothing moves down.
SPILLOVER: Final = Arrangement("spillover", place="with-room")

assert tuple(_DEFAULT.tiers()) == TIERS
