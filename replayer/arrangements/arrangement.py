"""Arrangements: tables of cache rules, and the values that they may contain.

`docs/arrangements.md` specifies what each rule does.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from replayer.arrangements.values import RULES, TIER_RULES, describe_wrong_value
from replayer.record.columns import TIERS
from replayer.record.options import Copies, Down, LookupRule, Recency, StorePlace, Tail, Touch, Up
from tracegen.errors import InputError


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
        fetch_tokens: a request asks the tier only if it misses so many tokens or more.
        fetch_in_flight: tokens that requests in flight may ask the tier for; 0: any number.
        fetch_share: the same, as a share of the tokens by which cpu is larger than gpu; 0: no such
            limit. If both limits are set, both hold.
        user_quota: the share of the usable bytes that one user's objects may take; 1: no quota.
    """

    down: Down = "on-evict"
    touches: int = 2
    admit_touches: int = 1
    admit_table: int = 0
    up: Up = "stay"
    policy: str = "lru"
    high: float = 1.0
    low: float = 1.0
    evict_share: float = 0.0
    fetch_tokens: int = 0
    fetch_in_flight: int = 0
    fetch_share: float = 0.0
    user_quota: float = 1.0


@dataclass(frozen=True)
class Origin:
    """Where the rules of an engine were read.

    Attributes:
        engine: name of the engine.
        version: its release.
        commit: the revision of its source code, or the tag.
        date: the day of that release's files, else the day on which they were read: YYYY-MM-DD.
    """

    engine: str
    version: str
    commit: str
    date: str


@dataclass(frozen=True)
class ArrangementRecord:
    """An arrangement as run.json records it.

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

    Raises:
        InputError: a value is out of its range, or two rules contradict each other.
    """

    name: str
    description: str = ""
    source: Origin | None = None
    copies: Copies = "exclusive"
    place: StorePlace = "fastest"
    touch: Touch = "serving"
    recency: Recency = "op"
    lookup: LookupRule = "trace"
    ttl_s: float = 0.0
    pin: tuple[str, ...] = ()
    chunk_tokens: int = 0
    tail: Tail = "drop"
    unsaved_tokens: int = 0
    gpu: TierRules = field(default_factory=TierRules)
    cpu: TierRules = field(default_factory=TierRules)
    nvme: TierRules = field(default_factory=TierRules)

    def __post_init__(self) -> None:
        for key, kind in RULES.items():
            self._check_value(key, getattr(self, key), kind)
        for tier, rules in self.tiers().items():
            for key, kind in TIER_RULES.items():
                self._check_value(f"{tier}.{key}", getattr(rules, key), kind)
            self._check_tier(tier, rules)

    def _check_value(self, path: str, value: object, kind: object) -> None:
        wrong = describe_wrong_value(value, kind)
        if wrong is not None:
            raise self.error(f"`{path}` is {wrong[0]}", wrong[1])

    def _check_tier(self, tier: str, rules: TierRules) -> None:
        """Refuse rules of a tier that contradict each other or the number of copies."""
        inclusive = "set `copies` to inclusive, or"
        if self.copies == "exclusive" and rules.down != "on-evict":
            raise self.error(
                f"`{tier}.down` is {rules.down}, which leaves a copy, and one tier holds an object",
                f"{inclusive} `{tier}.down` to on-evict",
            )
        if self.copies == "exclusive" and rules.up in ("copy", "copy-top"):
            raise self.error(
                f"`{tier}.up` is {rules.up}, which leaves a copy, and one tier holds an object",
                f"{inclusive} `{tier}.up` to stay or move",
            )
        if self.copies == "inclusive" and rules.up == "move":
            raise self.error(
                f"`{tier}.up` is move, and several tiers may hold an object",
                f"set `copies` to exclusive, or `{tier}.up` to stay, copy or copy-top",
            )
        if rules.evict_share and rules.high == 1:
            raise self.error(
                f"`{tier}.evict_share` is {rules.evict_share:g}, and the tier never evicts in the"
                f" background because `{tier}.high` is 1",
                f"set `{tier}.high` below 1",
            )
        if rules.high < 1 and not rules.evict_share and rules.low > rules.high:
            raise self.error(
                f"`{tier}.low` is {rules.low:g}, above `{tier}.high`, {rules.high:g}",
                f"set `{tier}.low` to {rules.high:g} or less",
            )

    def error(self, problem: str, remedy: str) -> InputError:
        """Make an error about this arrangement."""
        return InputError(problem, remedy, subject=self.name, setting="arrangement")

    def tiers(self) -> dict[str, TierRules]:
        """Return the rules of each tier by its name."""
        return {"gpu": self.gpu, "cpu": self.cpu, "nvme": self.nvme}

    def with_tiers(self, **changes: object) -> Self:
        """Return the arrangement with these rules changed in every tier."""
        tiers: dict[str, Any] = {
            tier: replace(rules, **changes)  # type: ignore[arg-type]  # checked when it is made
            for tier, rules in self.tiers().items()
        }
        return replace(self, **tiers)

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

    def simplify(self) -> Self:
        """Return the arrangement with the default for each key that has no effect."""
        tiers: dict[str, Any] = {tier: _simplify(rules) for tier, rules in self.tiers().items()}
        tiers["gpu"] = replace(tiers["gpu"], up="stay", down="on-evict", touches=2)
        changes: dict[str, Any] = {} if self.chunk_tokens else {"tail": "drop", "unsaved_tokens": 0}
        if self.copies == "exclusive":
            changes["touch"] = "serving"
        return replace(self, **tiers, **changes)

    def to_table(self) -> dict[str, object]:
        """Return the keys whose values differ from the defaults, as TOML and run.json have them."""
        table: dict[str, object] = {}
        for key in RULES:
            value = getattr(self, key)
            if value != getattr(_DEFAULT, key):
                table[key] = list(value) if key == "pin" else value
        for tier, rules in self.tiers().items():
            changed = {
                key: getattr(rules, key) for key in TIER_RULES if getattr(rules, key) != getattr(_DEFAULT.gpu, key)
            }
            if changed:
                table[tier] = changed
        return table

    def to_record(self) -> ArrangementRecord:
        """Return what run.json records.

        How objects are looked up is left out: it is a condition of its own.
        """
        table = replace(self.simplify(), lookup="trace").to_table()
        for known in (WATERFALL, SPILLOVER):
            for promotes in (False, True):
                same = known.with_promotion() if promotes else known
                if table == same.simplify().to_table():
                    return ArrangementRecord(known.name, None, promotes)
        promotes = all(rules.up == "move" for rules in (self.cpu, self.nvme))
        return ArrangementRecord(self.name, table, promotes)


def _simplify(rules: TierRules) -> TierRules:
    changes: dict[str, Any] = {}
    if rules.down != "on-touch":
        changes["touches"] = 2
    if rules.admit_touches == 1:
        changes["admit_table"] = 0
    if rules.high == 1 or rules.evict_share:
        changes["low"] = 1.0
    return replace(rules, **changes)


_DEFAULT: Final = Arrangement("default")
WATERFALL: Final = Arrangement("waterfall")
"""The default: one tier holds an object, and each tier evicts into the next slower one."""
SPILLOVER: Final = Arrangement("spillover", place="with-room")
"""New objects go to the fastest tier with room, and nothing moves down."""

assert tuple(_DEFAULT.tiers()) == TIERS
assert set(TIER_RULES) == {one.name for one in fields(TierRules)}
