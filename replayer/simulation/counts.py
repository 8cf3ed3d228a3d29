"""The counts of a cell's plan, and the row of the table that they become."""

import ctypes
from dataclasses import dataclass
from typing import Final

import numpy as np

from replayer.bindings.compiled import CountsStruct, address, call, reference
from replayer.planning.moves import Stretch
from replayer.planning.offered_load import DAY_S, Minutes, OfferedLoad
from replayer.planning.plan import PlanOptions
from replayer.planning.plan_summary import MoveTotals
from replayer.planning.workload import Workload
from replayer.record.columns import TIERS
from replayer.record.simulation import Cell
from tracegen.schema import ENUMS

_SOURCES: Final = ENUMS["source"]

_count_stretch = call("stretch_count")


@dataclass(frozen=True)
class Peaks:
    """The most bytes, and the most objects, at a time in gpu, cpu and nvme."""

    bytes: tuple[int, int, int]
    objects: tuple[int, int, int]


class CellCounts:
    """The counts of one cell, stretch by stretch.

    Attributes:
        totals: sums over its moves, as `replayer plan` has them.
        load: bytes per minute.
        minutes: when requests arrive.
    """

    def __init__(self, workload: Workload, minutes: Minutes) -> None:
        self.totals = MoveTotals()
        self.load = OfferedLoad(workload, minutes)
        self._workload = workload
        # Compiled code keeps pointers to these.
        self.minutes = minutes
        self._request = np.zeros(workload.requests + 1, np.uint8)
        self._key = np.zeros(workload.keys + 1, np.uint8)
        self._struct = CountsStruct(
            totals=ctypes.addressof(self.totals.struct),
            bytes=address(self.load.bytes),
            minute=address(minutes.of_request),
            request=address(self._request),
            key=address(self._key),
        )

    def add(self, stretch: Stretch, *_: object) -> None:
        """Add a stretch of the plan, the next in order."""
        _count_stretch(
            reference(self._workload.struct),
            address(stretch.ops),
            len(stretch.ops),
            address(stretch.moves),
            reference(self._struct),
        )

    def spared_tokens(self, tier: str) -> int:
        """Return the tokens of prompts that hits in a tier spare."""
        return sum(self._struct.spared_tokens[TIERS.index(tier) :: len(TIERS)])

    def to_cell(self, options: PlanOptions, peaks: Peaks) -> Cell:
        """Return the columns of counts of a row of the table.

        Args:
            options: of the plan, all of whose stretches were added.
            peaks: of its tiers.
        """
        info = self.totals.to_info()
        counts = self._struct
        reads = info.reads or 0
        hits = info.hits.gpu + info.hits.cpu + info.hits.nvme
        asked, found = sum(counts.reads), sum(counts.hits)
        prompt, spared = sum(counts.prompt_tokens), sum(map(self.spared_tokens, TIERS))
        hit_requests = counts.reading_requests - counts.missing_requests
        cell: Cell = {
            "ops": info.ops,
            "reads": reads,
            "requests": counts.requests,
            "reading_requests": counts.reading_requests,
            "prompt_tokens": prompt,
            "hits": hits,
            "misses": info.misses,
            "hit_requests": hit_requests,
            "spared_tokens": spared,
            "recomputed_tokens": info.recomputed_tokens,
            "bypasses": info.bypasses,
            "promotions": info.promotions,
            "hit_rate_ops": _divide(found, asked),
            "hit_rate_tokens": _divide(spared, prompt),
            "hit_rate_requests": _divide(hit_requests, counts.reading_requests),
            "hit_rate_all_ops": _divide(hits, info.ops),
        }
        return cell | self._by_source() | self._by_tier(peaks) | self._load(options)

    def _by_source(self) -> Cell:
        counts = self._struct
        cell: Cell = {}
        for code, source in enumerate(_SOURCES):
            tiers = slice(code * len(TIERS), (code + 1) * len(TIERS))
            cell[f"reads_{source}"] = counts.reads[code]
            cell[f"hits_{source}"] = sum(counts.hits[tiers])
            cell[f"prompt_tokens_{source}"] = counts.prompt_tokens[code]
            cell[f"spared_tokens_{source}"] = sum(counts.spared_tokens[tiers])
        return cell

    def _by_tier(self, peaks: Peaks) -> Cell:
        counts = self._struct
        info = self.totals.to_info()
        cell: Cell = {}
        for code, tier in enumerate(TIERS):
            demotions = self.totals.demotions_from(code)
            cell |= {
                f"hits_{tier}": getattr(info.hits, tier),
                f"spared_tokens_{tier}": self.spared_tokens(tier),
                f"stores_{tier}": getattr(info.stores, tier),
                f"entries_{tier}": counts.entries[code],
                f"unread_entries_{tier}": counts.entries[code] - counts.read_entries[code],
                f"demotions_{tier}": demotions,
                f"drops_{tier}": counts.drops[code],
                f"free_drops_{tier}": counts.free_drops[code],
                f"evictions_{tier}": demotions + counts.drops[code],
                f"peak_bytes_{tier}": peaks.bytes[code],
                f"peak_objects_{tier}": peaks.objects[code],
                f"read_bytes_{tier}": getattr(info.read_bytes, tier),
                f"write_bytes_{tier}": getattr(info.write_bytes, tier),
            }
        return cell

    def _load(self, options: PlanOptions) -> Cell:
        """Return what the trace asks of the tiers at its own times."""
        offered = self.load.summarise(options)
        info = self.totals.to_info()
        days = offered.span_s / DAY_S
        cell: Cell = {"drive_writes_per_day": offered.nvme_drive_writes_per_day}
        for tier in TIERS:
            peak = None if offered.peak_gib_s is None else offered.peak_gib_s[tier]
            cell |= {
                f"read_bytes_per_day_{tier}": _divide(getattr(info.read_bytes, tier), days),
                f"write_bytes_per_day_{tier}": _divide(getattr(info.write_bytes, tier), days),
                f"peak_read_gib_s_{tier}": None if peak is None else peak.read,
                f"peak_write_gib_s_{tier}": None if peak is None else peak.write,
            }
        return cell


def _divide(part: float, whole: float) -> float | None:
    return part / whole if whole else None
