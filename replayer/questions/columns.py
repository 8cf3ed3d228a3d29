"""The counts of a plan as columns of the table of docs/simulating.md."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from replayer.planning.counts import DAY_S, GIB, PlanCounts
from replayer.planning.moves import NVME
from replayer.planning.plan import PlanOptions
from replayer.record.options import BYS, TIERS
from replayer.record.simulation import Cell
from tracegen.schema import ENUMS

SIDES: Final = ("read", "write")
_UNKNOWN: Final = (None,) * len(TIERS)


def tabulate_counts(counts: PlanCounts, options: PlanOptions) -> Cell:
    """Return the columns of counts, by name.

    Args:
        counts: of a complete plan, with its minutes.
        options: of the plan.
    """
    info = counts.totals
    hits = msgspec.structs.astuple(info.hits)  # those of decode reads, too
    spared, prompt = counts.hits_of("tokens")
    hit_requests, reading_requests = counts.hits_of("requests")
    names = ("ops", "reads", "misses", "recomputed_tokens", "bypasses", "promotions")
    cell: Cell = {name: getattr(info, name) for name in names} | {
        "requests": counts.table("requests"),
        "reading_requests": reading_requests,
        "prompt_tokens": prompt,
        "hits": sum(hits),
        "hit_requests": hit_requests,
        "spared_tokens": spared,
        **{f"hit_rate_{by}": _divide(*counts.hits_of(by)) for by in BYS},
        # With first writes and decode reads, as some tools count.
        "hit_rate_all_ops": _divide(sum(hits), info.ops),
    }
    by_source = {
        "reads": counts.table("reads"),
        "hits": counts.table("hits").sum(1),
        "prompt_tokens": counts.table("prompt_tokens"),
        "spared_tokens": counts.table("spared_tokens").sum(1),
    }
    entries, drops = counts.table("entries"), counts.table("drops")
    demotions = [info.demotions.gpu_cpu + info.demotions.gpu_nvme, info.demotions.cpu_nvme, 0]
    by_tier = {
        "hits": hits,
        "spared_tokens": counts.table("spared_tokens").sum(0),
        "stores": msgspec.structs.astuple(info.stores),
        "entries": entries,
        "unread_entries": entries - counts.table("read_entries"),
        "demotions": demotions,
        "drops": drops,
        "free_drops": counts.table("free_drops"),
        "evictions": drops + demotions,
        "peak_bytes": counts.account.peak,
        "peak_objects": counts.account.peak_objects,
    }
    cell |= _spread(by_source, ENUMS["source"]) | _spread(by_tier, TIERS)
    load = _list_load(counts)
    usable, per_day = options.usable()[NVME], load["write_bytes_per_day_nvme"]
    writes = per_day / usable if isinstance(per_day, float) and usable else None
    return cell | load | {"drive_writes_per_day": writes}


def _list_load(counts: PlanCounts) -> Cell:
    """Return the bytes by tier and direction, and their rates unless all requests come at once."""
    assert counts.minutes is not None, "bytes are counted by minute"
    span_s = counts.minutes.span_s
    cell: Cell = {}
    for side, sizes in zip(SIDES, counts.bytes.sum(0).swapaxes(0, 1), strict=True):
        total, most = sizes.sum(0), sizes.max(0, initial=0)
        columns = {
            f"{side}_bytes": total,
            f"{side}_bytes_per_day": total / (span_s / DAY_S) if span_s else _UNKNOWN,
            # A trace shorter than a minute has its own length as busiest minute.
            f"peak_{side}_gib_s": most / GIB / min(60.0, span_s) if span_s else _UNKNOWN,
        }
        cell |= _spread(columns, TIERS)
    return cell


def _spread(columns: Mapping[str, Iterable[Any]], words: Sequence[str]) -> Cell:
    """Return a column per word for each of these, whose values are in the order of the words."""
    return {
        f"{name}_{word}": value
        for name, values in columns.items()
        for word, value in zip(words, np.array(values).tolist(), strict=True)
    }


def _divide(part: float, whole: float) -> float | None:
    return part / whole if whole else None
