"""The answer to "how much memory?" as text for a terminal."""

from collections.abc import Sequence
from typing import Final

from replayer.models.geometry import TokenBytes
from replayer.sizing.answer import Answer, Judged
from replayer.sizing.break_even import BreakEven
from replayer.sizing.halves import By
from replayer.sizing.rounds import Rounds
from replayer.sizing.search import SizeTargets

_COUNTED: Final[dict[By, str]] = {"ops": "reads", "tokens": "prompt tokens", "requests": "requests"}
_GB: Final = 10**9


def format_answer(answer: Answer) -> list[str]:
    """Return the answer as lines: a table, then sentences."""
    lines = ["  " + _describe_targets(answer.targets)]
    if answer.bound.nvme_gib_s is None:
        lines.append("  all requests arrive at once: there is no busiest minute, and no day")
    if answer.pairs:
        lines += ["", *_tabulate(answer)]
    lines.append("")
    if answer.chosen is None:
        return [*lines, *_explain_failure(answer)]
    if answer.curve:
        lines += [*_tabulate_curve(answer), ""]
    lines += [
        _recommend(answer, answer.chosen),
        *_describe_cliff(answer),
        *_describe_halves(answer),
    ]
    if answer.reversal is not None:
        smaller, larger = answer.reversal.smaller, answer.reversal.larger
        lines.append(
            f"Careful: more memory may hit less on this trace: {_sizes(smaller)} hits"
            f" {_percent(smaller.hit_rate)}, {_sizes(larger)} {_percent(larger.hit_rate)}."
            " A still smaller size than the one found may reach the target."
        )
    if answer.break_even is not None:
        lines += _describe_break_even(answer.break_even)
    return lines


def _describe_targets(targets: SizeTargets) -> str:
    wanted = [f"hits for {float(targets.hit_rate) * 100:.6g}% of {_COUNTED[targets.by]}"]
    if targets.dwpd is not None:
        wanted.append(f"at most {targets.dwpd:g} drive writes per day")
    if targets.nvme_gib_s is not None:
        wanted.append(f"nvme at most {targets.nvme_gib_s:g} GiB/s in the busiest minute")
    return f"targets: {', '.join(wanted)}"


def _tabulate(answer: Answer) -> list[str]:
    """Return the pairs of DRAM and NVMe; a star marks the sizes chosen."""
    pairs = list(answer.pairs)
    if answer.chosen is not None and _key(answer.chosen) not in map(_key, pairs):
        pairs = sorted([*pairs, answer.chosen], key=_key)
    has_cost = any(pair.cost is not None for pair in pairs)
    heads = ["DRAM GiB", "NVMe GiB", "hit rate", "drive writes/day", "NVMe GiB/s"]
    rows = [[*heads, *(["cost"] if has_cost else []), "misses"]]
    for pair in pairs:
        cells = [*_cells(pair), *([_number(pair.cost)] if has_cost else [])]
        rows.append([*cells, ", ".join(pair.missed)])
    if not any(pair.missed for pair in pairs):
        rows = [row[:-1] for row in rows]
    chosen = None if answer.chosen is None else _key(answer.chosen)
    marks = [" ", *("*" if _key(pair) == chosen else " " for pair in pairs)]
    return [f"{mark} {line}" for mark, line in zip(marks, _align(rows), strict=True)]


def _tabulate_curve(answer: Answer) -> list[str]:
    tier = "NVMe" if answer.halved == "nvme" else "DRAM"
    rows = [[f"{tier} GiB", "hit rate", "lost by halving"]]
    for one, halved in zip(answer.curve, [*answer.curve[1:], None], strict=True):
        lost = ""
        if halved is not None:
            lost = f"{((one.hit_rate or 0) - (halved.hit_rate or 0)) * 100:.1f} points"
        rows.append([_number(_halved(answer, one)), _percent(one.hit_rate), lost])
    if answer.cliff is not None:
        rows[answer.cliff + 1][-1] += " (the cliff)"
    return [f"  {line}" for line in _align(rows)]


def _recommend(answer: Answer, chosen: Judged) -> str:
    """Return the first sentence: what to buy, and what keeps it from being smaller."""
    hits = f"{_percent(chosen.hit_rate)} of {_COUNTED[answer.targets.by]}"
    smaller = "; ".join(
        f"{_sizes(one)} hits {_percent(one.hit_rate)}"
        + (f" and misses the {' and the '.join(one.missed)}" if one.missed else "")
        for one in answer.one_step_smaller
    )
    binds = f"What binds is the {' and the '.join(answer.binds)}: " if answer.binds else ""
    bound = f"no size hits more than {_percent(answer.bound.hit_rate)}"
    smaller = smaller or "nothing is smaller"
    return f"Take {_sizes(chosen)}: it hits {hits}; {bound}. {binds}{smaller}."


def _describe_cliff(answer: Answer) -> list[str]:
    if answer.cliff is None:
        return []
    above, below = answer.curve[answer.cliff], answer.curve[answer.cliff + 1]
    tier = "NVMe" if answer.halved == "nvme" else "DRAM"
    lost = ((above.hit_rate or 0) - (below.hit_rate or 0)) * 100
    return [
        f"The cliff is between {_memory(_halved(answer, above))} and"
        f" {_memory(_halved(answer, below))} of {tier}: there, halving it costs the most,"
        f" {lost:.1f} points (from {_percent(above.hit_rate)} to {_percent(below.hit_rate)})."
    ]


def _describe_halves(answer: Answer) -> list[str]:
    """Return how well sizes chosen on the first half do on the second."""
    halves = answer.halves
    if halves is None:
        return []
    if halves.first.missed:
        missed = " and the ".join(halves.first.missed)
        return [f"On the first half of the requests alone, no size reaches the {missed}."]
    how = "no second half was asked"
    if halves.missed_by is not None:
        points = halves.missed_by * 100
        side = "below" if points > 0 else "above"
        how = f"{_percent(halves.second.hit_rate)}, {abs(points):.1f} points {side} the target"
    others = [name for name in halves.second.missed if name != "hit rate"]
    also = f", and misses the {' and the '.join(others)}" if others else ""
    return [
        f"Chosen on the first half of the requests, it would be {_sizes(halves.first)};"
        f" on the second half, that size hits {how}{also}."
    ]


def _describe_break_even(weighed: BreakEven) -> list[str]:
    if weighed.equal_tok_s is None or weighed.equal_layer_by_layer_tok_s is None:
        return ["Nothing is loaded from nvme, so there is nothing to compute instead."]
    return [
        f"Loading a token from nvme takes {1e6 / weighed.load_tok_s:,.1f} us, computing it"
        f" {1e6 / weighed.prefill_tok_s:,.1f} us: nvme serves {weighed.load_tok_s:,.0f} tokens/s.",
        f"All prompts: {weighed.recompute_s:,.1f} s if computed,"
        f" {weighed.load_then_compute_s:,.1f} s if loaded first,"
        f" {weighed.layer_by_layer_s:,.1f} s if loaded layer by layer behind computing.",
        f"Loading wins while a GPU computes fewer than {weighed.equal_tok_s:,.0f} tokens/s; layer"
        f" by layer, fewer than {weighed.equal_layer_by_layer_tok_s:,.0f}.",
    ]


def _explain_failure(answer: Answer) -> list[str]:
    """Return why no sizes reach the targets."""
    bound = f"a cache that never evicts hits {_percent(answer.bound.hit_rate)}"
    if "hit rate" in answer.bound.missed:
        wanted = f"{float(answer.targets.hit_rate) * 100:.6g}% of {_COUNTED[answer.targets.by]}"
        new = "; prompt tokens that are new never hit" if answer.targets.by == "tokens" else ""
        return [f"{wanted} cannot be had: {bound}{new}. Ask for a lower rate, or for other rules."]
    closest = answer.pairs[-1]
    return [
        f"No size reaches the targets, though {bound}: the closest, {_sizes(closest)}, misses the"
        f" {' and the '.join(answer.binds)}."
    ]


def format_rounds(rounds: Rounds, sizes: TokenBytes, pool_bytes: int) -> list[str]:
    """Return in which round a pool becomes too small, as lines."""
    lines = [
        f"  {rounds.clients:,} clients × {rounds.rounds:,} rounds × {rounds.tokens:,} tokens,"
        f" {sizes.per_token:,} bytes per token",
        f"  a pool of {pool_bytes:,} bytes ({pool_bytes / _GB:g} GB of 10^9 bytes)",
        "",
    ]
    rows = [["round", "working set, bytes", "of the pool"]]
    for number, size in enumerate(rounds.working_sets(sizes), 1):
        rows.append([str(number), f"{size:,}", f"{size / pool_bytes:.1%}"])
    lines += [f"  {line}" for line in _align(rows)]
    first = rounds.first_above(sizes, pool_bytes)
    if first is None:
        return [*lines, "", f"All {rounds.rounds:,} rounds fit the pool: every read hits."]
    working = rounds.working_sets(sizes)
    fit = rounds.clients_that_fit(sizes, pool_bytes)
    return [
        *lines,
        "",
        f"Hits fall in round {first}: its working set of {working[first - 1]:,} bytes is the first"
        f" above the pool's {pool_bytes:,}.",
        f"For all {rounds.rounds:,} rounds the pool needs {working[-1]:,} bytes"
        f" ({working[-1] / _GB:,.1f} GB); as it is, it carries {fit:,} of the"
        f" {rounds.clients:,} clients to the end.",
    ]


def _key(judged: Judged) -> tuple[float, float]:
    return judged.cpu_gib, float("inf") if judged.nvme_gib is None else judged.nvme_gib


def _halved(answer: Answer, judged: Judged) -> float | None:
    return judged.nvme_gib if answer.halved == "nvme" else judged.cpu_gib


def _cells(judged: Judged) -> list[str]:
    nvme = "unlimited" if judged.nvme_gib is None else _number(judged.nvme_gib)
    return [
        *(_number(judged.cpu_gib), nvme, _percent(judged.hit_rate)),
        *(_number(judged.drive_writes_per_day), _number(judged.nvme_gib_s)),
    ]


def _sizes(judged: Judged) -> str:
    parts = []
    if judged.cpu_gib:
        parts.append(f"{_memory(judged.cpu_gib)} of DRAM")
    if judged.nvme_gib != 0:
        of = "" if judged.nvme_gib is None else " of"
        parts.append(f"{_memory(judged.nvme_gib)}{of} NVMe")
    return " and ".join(parts) or "no memory"


def _memory(gib: float | None) -> str:
    """Return a size in GiB, or in MiB below one GiB."""
    if gib is None:
        return "unlimited"
    return f"{gib * 1024:,.4g} MiB" if gib < 1 else f"{_number(gib)} GiB"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with columns aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(map(str.rjust, row, widths)) for row in rows]
