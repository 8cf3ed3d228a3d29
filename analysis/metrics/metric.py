"""The description of a metric: unit, kind, label, better direction and samples."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from string import Formatter
from typing import Final, Literal

import polars as pl

from analysis.log.columns import CAUSES
from analysis.log.log import Log
from analysis.log.quantiles import BEYOND_PERCENTILE, QUANTILES, STATS
from replayer.schema import MOVES, TIERS
from tracegen.schema import ENUMS

Better = Literal["higher", "lower"]
# The origin of a metric's value.
#
# work: the trace, the capacities and the plan; all runs of one plan have the same value.
# speed: the system; only by these metrics is one system better than another.
# wear: the work and the pace of the replay together; a faster replay is not worse by it.
# machine: whatever else the machine did.
Kind = Literal["work", "speed", "wear", "machine"]

# Units of whole numbers. Other units are quotients and times; "" is the unit of a word or a flag.
COUNT_UNITS: Final = ("bytes", "moves", "objects", "ops", "requests", "tokens", "users")
# The metric that counts the moves of each kind.
MOVE_COUNTS: Final = {
    kind: {"miss": "misses", "bypass": "bypasses", "copy": "copies"}.get(kind, f"{kind}s") for kind in MOVES
}

_STAT_LABELS: Final = {"p999": "P99.9", "p9999": "P99.99", "mean": "mean", "max": "max"}
_CAUSE_LABELS: Final = {
    "data": "earlier moves of the object",
    "eviction": "the op's own evictions",
    "room": "room that other ops free",
    "order": "ops that were not due",
    "window": "the replayer's window",
}
# The words that replace a `{place}`: in a name, and in a label.
PLACES: Final[dict[str, dict[str, str]]] = {
    "tier": {tier: tier for tier in TIERS},
    "direction": {direction: direction for direction in ("read", "write")},
    "stat": {stat: _STAT_LABELS.get(stat, stat.upper()) for stat in STATS},
    "wait": {cause: _CAUSE_LABELS[cause] for cause in CAUSES},
    "source": {source: source.replace("_", " ") for source in ENUMS["source"]},
    "qos": {qos: qos for qos in ENUMS["qos"]},
    "moves": {count: count for count in MOVE_COUNTS.values()},
}


def samples_needed(percentile: str) -> int:
    """Return the samples that a percentile must rest on: 10 for p50, 100 for p95, 500 for p99."""
    return round(BEYOND_PERCENTILE / (1 - QUANTILES[percentile]))


@dataclass(frozen=True)
class Metric:
    """A metric, or with {places} in its name a family of metrics.

    Attributes:
        name: e.g. `nvme_read_p95_ms`, or `{tier}_{direction}_{stat}_ms` for a family.
        unit: one of COUNT_UNITS, "s", "ms", "tok/s", "GiB/s", …; "share" of 1; "ratio"; "" for
            words and flags.
        kind: the origin of the value.
        label: a noun phrase that is clear on its own, without the unit; it has the places of the
            name.
        better: the better values; None if neither higher nor lower ones are better.
        counted_by: the metric that counts the samples behind the value; None if no metric does.
        percentile: a key of QUANTILES if the metric is a percentile; a family takes it from {stat}.
        least_samples: the samples that a trustworthy value needs; a percentile brings its own.
        tier: the tier that the metric belongs to; a family takes it from {tier}.
        family: the name as it was declared, with its places.
        group: the function that computes it, by its name.
        definition: one sentence with the formula, from the docstring of that function.
    """

    name: str
    unit: str
    kind: Kind
    label: str
    better: Better | None = None
    counted_by: str | None = None
    percentile: str | None = None
    least_samples: int = 1
    tier: str | None = None
    family: str = ""
    group: str = ""
    definition: str = ""

    @property
    def is_count(self) -> bool:
        """Whether the value is a number of things."""
        return self.unit in COUNT_UNITS

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of 1, which people read in percent."""
        return self.unit == "share"

    @property
    def is_equal_work(self) -> bool:
        """Whether two runs that did the same work have exactly the same value."""
        return self.kind == "work" and self.is_count

    @property
    def better_system(self) -> Better | None:
        """The values by which a system is better; None unless the system determines them."""
        return self.better if self.kind == "speed" else None

    def expand(self) -> Iterator["Metric"]:
        """Yield the metrics of a family, or the metric itself."""
        names = places_of(self.name)
        for words in product(*(PLACES[name] for name in names)):
            yield self._with(dict(zip(names, words, strict=True)))

    def _with(self, words: Mapping[str, str]) -> "Metric":
        """Return the member of a family with these words in its places."""
        stat = words.get("stat")
        percentile = stat if stat in QUANTILES else self.percentile
        labels = {place: PLACES[place][word] for place, word in words.items()}
        return replace(
            self,
            name=self.name.format(**words),
            label=self.label.format(**labels),
            counted_by=self.counted_by and self.counted_by.format(**words),
            percentile=percentile,
            least_samples=samples_needed(percentile) if percentile else self.least_samples,
            tier=words.get("tier", self.tier),
            family=self.name,
        )


# Functions that compute metrics, and the metrics in the order of their docstrings.
Declared = dict[Callable[[Log], pl.LazyFrame], tuple[Metric, ...]]


def divide(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Divide; null unless the whole is above 0."""
    return pl.when(whole > 0).then(part / whole)


def make_row(values: Mapping[str, float | None]) -> pl.LazyFrame:
    """Return metrics that are known already as a frame of one row."""
    return pl.LazyFrame({name: [value] for name, value in values.items()}, dict.fromkeys(values, pl.Float64))


def places_of(name: str) -> list[str]:
    """Return the {places} of a name, in their order."""
    return [place for _, place, _, _ in Formatter().parse(name) if place]
