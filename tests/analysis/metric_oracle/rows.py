"""Questions about one row of a log."""

from collections.abc import Callable

from tests.analysis.metric_oracle.arithmetic import total
from tests.analysis.metric_oracle.facts import Facts, Row


def is_ok(row: Row) -> bool:
    return row["status"] == "ok"


def touches(row: Row, side: str, tier: str | None = None) -> bool:
    """Whether a move read or wrote the tier, or any."""
    if side == "read":
        name, moves = row["from_tier"], ("hit", "promote", "demote", "copy")
    else:
        name, moves = row["to_tier"], ("store", "demote", "copy")
    return is_ok(row) and row["move"] in moves and (name is not None if tier is None else name == tier)


def tier_of(row: Row, side: str) -> str:
    return str(row["from_tier"] if side == "read" else row["to_tier"])


def on_nvme(row: Row) -> bool:
    return touches(row, "read", "nvme") or touches(row, "write", "nvme")


def is_hit(row: Row) -> bool:
    return is_ok(row) and row["move"] in ("hit", "promote")


def is_read(row: Row) -> bool:
    return row["move"] in ("hit", "promote", "miss")


def is_eviction(row: Row) -> bool:
    return row["move"] in ("demote", "drop")


def is_for_others(row: Row) -> bool:
    return row["move"] in ("demote", "drop", "copy")


def io_ns(row: Row) -> int:
    return int(row["end_ns"] - row["start_ns"])


def queue_ns(row: Row) -> int:
    return int(row["start_ns"] - row["ready_ns"])


def planned_ns(row: Row) -> int:
    return int(row["ready_ns"] - row["due_ns"])


def waited_ns(row: Row, cause: str) -> int:
    if cause in ("window", "order"):
        return int(row[f"{cause}_ns"])
    return planned_ns(row) - int(row["window_ns"]) - int(row["order_ns"]) if row["waited_for"] == cause else 0


CAUSES = ("data", "eviction", "room", "order", "window")


def share_in(row: Row, begin: int, end: int) -> float:
    """Which part of a move lies in a span."""
    if io_ns(row):
        return max(0, min(row["end_ns"], end) - max(row["start_ns"], begin)) / io_ns(row)
    return float(begin <= row["start_ns"] <= end)


def weighted(facts: Facts, *names: str, which: Callable[[Row], bool] = lambda row: True) -> float:
    """What rates count of columns: all of them, of a cut run by the share of each move inside the window."""
    if facts.window is None:
        return total(filter(which, facts.rows), *names)
    return sum(share_in(row, *facts.window) * row[name] for row in facts.every if which(row) for name in names)


def weighted_io_ns(facts: Facts) -> float:
    if facts.window is None:
        return sum(map(io_ns, facts.rows))
    return sum(share_in(row, *facts.window) * io_ns(row) for row in facts.every)


def size_class(size: int) -> int:
    n = 0
    while 4 ** (n + 1) <= size:
        n += 1
    return n


def class_name(n: int) -> str:
    low, unit = 4**n, 0
    while low >= 1024:
        low, unit = low // 1024, unit + 1
    return f"{low} {['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}"


def clocks(row: Row, side: str) -> dict[str, int]:
    whole, device = row[f"{side}_ns"], row[f"device_{side}_ns"]
    return {"total": whole, "device": device, "host": max(0, whole - device), "queue": queue_ns(row)}
