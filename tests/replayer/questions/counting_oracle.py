"""What docs/simulating.md says of a cell, counted slowly: from ops and moves, without the compiled counts."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from tests.replayer.prediction.oracle import Decided
from tracegen.schema import ENUMS, Columns

MINUTE_NS = 60 * 10**9
TIERS = ("gpu", "cpu", "nvme")
SOURCES = ENUMS["source"]
READS_BYTES = ("hit", "promote", "demote", "copy")
ENTERS = ("store", "demote", "copy")
LEAVES = ("demote", "promote", "drop", "delete")


@dataclass
class Entry:
    """An object in a tier, from the move that brings it to the move that takes it away."""

    tier: str
    is_read: bool = False


class Oracle:
    """Counts of a plan in trace order or any other."""

    def __init__(self, batch: Columns, stored: dict[int, int]) -> None:
        self.batch = batch
        self.stored = stored  # tokens of each key that a hit spares
        self.entries: list[Entry] = []
        self.inside: dict[int, dict[str, Entry]] = defaultdict(dict)
        self.sums: Counter[str] = Counter()
        self.minutes: dict[str, Counter[int]] = defaultdict(Counter)  # bytes by direction and tier, then minute
        times: dict[int, int] = {}
        for request, time_ns in zip(batch["request_id"].tolist(), batch["time_ns"].tolist(), strict=True):
            times.setdefault(request, time_ns)
        self.arrivals = {request: time_ns - min(times.values()) for request, time_ns in times.items()}
        self.reads_of: dict[int, list[bool]] = defaultdict(list)  # per request: whether each read hits
        self.requests: set[int] = set()

    def take(self, decided: Decided) -> None:
        op = {name: int(column[decided.row]) for name, column in self.batch.items()}
        source, is_prefill = SOURCES[op["source"]], ENUMS["phase"][op["phase"]] == "prefill"
        self.requests.add(op["request_id"])
        minute = self.arrivals[op["request_id"]] // MINUTE_NS
        self.add("ops", 1)
        if is_prefill and decided.role != "delete":
            self.add("prompt_tokens", op["tokens"], source)
        for move, key, origin, target, size in decided.moves:
            if move in ("hit", "promote", "miss"):
                self.add("reads", 1, *([source] if is_prefill else []))
                if is_prefill:
                    self.reads_of[op["request_id"]].append(move != "miss")
            if move in ("hit", "promote"):
                tier = TIERS[origin]
                self.inside[key][tier].is_read = True
                self.add("hits", 1, *([source] if is_prefill else []), tier)
                self.add("spared_tokens", self.stored[key] if is_prefill else 0, source, tier)
            self.move(move, key, origin, target, size, minute)

    def move(self, move: str, key: int, origin: int, target: int, size: int, minute: int) -> None:
        source, goal = (None if tier < 0 else TIERS[tier] for tier in (origin, target))
        if move in READS_BYTES:
            self.minutes[f"read_{source}"][minute] += size
        if move in LEAVES and source is not None:
            del self.inside[key][source]
        if move == "drop":
            slower = TIERS[TIERS.index(str(source)) + 1 :]
            kind = "free_drops" if any(tier in self.inside[key] for tier in slower) else "drops"
            self.sums[f"{kind}_{source}"] += 1
        if move in ("demote", "store"):
            self.sums[f"demotions_{source}" if move == "demote" else f"stores_{goal}"] += 1
        if move in ENTERS:
            assert goal is not None
            assert goal not in self.inside[key]
            self.minutes[f"write_{goal}"][minute] += size
            self.entries.append(Entry(goal))
            self.inside[key][goal] = self.entries[-1]
        if move in ("miss", "bypass", "promote"):
            self.sums[{"miss": "misses", "bypass": "bypasses", "promote": "promotions"}[move]] += 1

    def add(self, name: str, amount: int, *places: str) -> None:
        for suffix in ("", *(f"_{place}" for place in places)):
            self.sums[name + suffix] += amount

    def load(self, side: str, tier: str) -> dict[str, Any]:
        """Bytes, and rates over the time in which requests arrive; over a minute, or over less if all is less."""
        minutes, span_s = self.minutes[f"{side}_{tier}"], max(self.arrivals.values(), default=0) / 1e9
        total, most = sum(minutes.values()), max(minutes.values(), default=0)
        return {
            f"{side}_bytes_{tier}": total,
            f"{side}_bytes_per_day_{tier}": pytest.approx(total / span_s * 86_400) if span_s else None,
            f"peak_{side}_gib_s_{tier}": pytest.approx(most / 2**30 / min(60, span_s)) if span_s else None,
        }

    def cell(self) -> dict[str, Any]:
        """The columns that follow from ops and moves alone."""
        hit = [all(reads) for reads in self.reads_of.values()]
        found: dict[str, Any] = {
            "requests": len(self.requests),
            "reading_requests": len(hit),
            "hit_requests": sum(hit),
            **{name: self.sums[name] for name in ("ops", "reads", "hits", "misses", "bypasses", "promotions")},
            **{name: self.sums[name] for name in ("prompt_tokens", "spared_tokens")},
        }
        for tier in TIERS:
            names = ("hits", "spared_tokens", "stores", "demotions", "drops", "free_drops")
            found |= {f"{name}_{tier}": self.sums[f"{name}_{tier}"] for name in names}
            found[f"evictions_{tier}"] = found[f"demotions_{tier}"] + found[f"drops_{tier}"]
            for side in ("read", "write"):
                found |= self.load(side, tier)
            entries = [entry for entry in self.entries if entry.tier == tier]
            found[f"entries_{tier}"] = len(entries)
            found[f"unread_entries_{tier}"] = sum(not entry.is_read for entry in entries)
        for source in SOURCES:
            names = ("reads", "hits", "prompt_tokens", "spared_tokens")
            found |= {f"{name}_{source}": self.sums[f"{name}_{source}"] for name in names}
        found |= {f"prefill_{name}": sum(found[f"{name}_{source}"] for source in SOURCES) for name in ("hits", "reads")}
        rates = {
            "ops": ("prefill_hits", "prefill_reads"),
            "tokens": ("spared_tokens", "prompt_tokens"),
            "all_ops": ("hits", "ops"),
        }
        rates["requests"] = ("hit_requests", "reading_requests")
        for name, (part, whole) in rates.items():
            found[f"hit_rate_{name}"] = found[part] / found[whole] if found[whole] else None
        del found["prefill_hits"], found["prefill_reads"]
        return found
