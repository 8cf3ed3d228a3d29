"""Every metric against plain Python over the same rows; verdicts on runs that deserve them and on runs that do not."""

import json
import math
import random
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from analysis import summary
from analysis.metrics import METRICS
from replayer.schema import LOG_COLUMNS, LOG_ENUMS, MOVES, TIERS, RunDirectory, read_run
from tests.conftest import DEMO, Run
from tracegen.schema import ENUMS, InputError

GIB = 2**30
Dict = dict[str, Any]


def make_rows(seed: int, count: int) -> list[Dict]:
    """Rows that are plausible one by one; words for enums, None for null."""
    rng, rows = random.Random(seed), []
    for i in range(count):
        move = rng.choice(MOVES)
        source, target = (rng.choice(TIERS[1:]) for _ in "ab")
        due = rng.randrange(10**9)
        ready = due + rng.randrange(10**7)
        start = ready + rng.randrange(10**8)
        reads, writes = move in ("hit", "promote", "demote"), move in ("store", "demote")
        read, write = rng.randrange(1, 10**7) * reads, rng.randrange(1, 10**7) * writes
        rows.append(
            dict.fromkeys(LOG_COLUMNS, 0)
            | {
                "op_id": i, "seq": rng.choice([0, 0, 1]), "request_id": rng.randrange(20), "new_tokens": rng.randrange(40),
                "qos": rng.choice(ENUMS["qos"]), "phase": rng.choice(ENUMS["phase"]), "source": rng.choice(ENUMS["source"]),
                "op": rng.choice(("write", "read")), "tokens": rng.randrange(1, 3000), "size_bytes": rng.randrange(1, 10**9),
                "move": move, "status": rng.choices(("ok", "error", "upstream"), (8, 1, 1))[0],
                "from_tier": source if reads or move == "drop" else None, "to_tier": target if writes else None,
                "due_ns": due, "ready_ns": ready, "start_ns": start, "end_ns": start + read + write + rng.randrange(10**6),
                "read_ns": read, "write_ns": write, "device_read_ns": read // 2, "device_write_ns": write // 3,
                "warmup": False, "error": None,
            }
        )  # fmt: skip
    return rows


TOKEN_NS = 2_500_000


def write_run(path: Path, rows: list[Dict], parts: int = 3, **info: Any) -> Path:
    directory = RunDirectory(path)
    coded = [
        {
            n: (LOG_ENUMS[n].index(row[n]) if row[n] is not None else -1) if n in LOG_ENUMS else row[n]
            for n in LOG_COLUMNS
        }
        for row in rows
    ]
    for part in range(parts):
        if chunk := coded[part::parts]:
            directory.write_part({n: [row[n] for row in chunk] for n in LOG_COLUMNS})
    conditions = {
        "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 5, "nvme": None}, "workers": 1,
        "pace": "asap", "direct": True, "verify": "stamps",
        "token_ms": TOKEN_NS / 1e6,
    }  # fmt: skip
    directory.save(
        {
            "status": "failed", "reason": "r", "trace": {"fingerprint": "t"}, "warnings": [],
            "plan": dict.fromkeys("ops hits stores misses demotions promotions drops bypasses recomputed_tokens read_bytes write_bytes".split()),
            "conditions": conditions, "executed_ops": len(rows), "executed_fingerprint": "p",
            "window": {"duration_s": 1, "drain_s": 1.5},
        }
        | info
    )  # fmt: skip
    return path


def quantile(values: list[float], q: float) -> float | None:
    """Linear interpolation between order statistics, position q (n - 1)."""
    if not values:
        return None
    ordered, at = sorted(values), q * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: list[float], name: str) -> dict[str, float | None]:
    found = {
        f"{name}_{k}_ms": quantile(values, q) for k, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
    }
    return found | {
        f"{name}_mean_ms": sum(values) / len(values) if values else None,
        f"{name}_max_ms": max(values, default=None),
    }


def union(rows: list[Dict]) -> float:
    busy, end = 0, -1
    for row in sorted(rows, key=lambda r: r["start_ns"]):
        busy += max(0, row["end_ns"] - max(end, row["start_ns"]))
        end = max(end, row["end_ns"])
    return busy / 1e9


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def reference(rows: list[Dict]) -> Dict:
    """design.md's table, spelled out without Polars."""
    ok = [row for row in rows if row["status"] == "ok"]
    elapsed = (max(r["end_ns"] for r in rows) - min(r["start_ns"] for r in rows)) / 1e9
    tokens, io = sum(r["new_tokens"] for r in rows), sum(r["end_ns"] - r["start_ns"] for r in rows) / 1e9
    hits = [r for r in ok if r["move"] in ("hit", "promote")]
    reads = [r for r in rows if r["move"] in ("hit", "promote", "miss")]
    writes = [r for r in rows if r["op"] == "write" and r["move"] in ("store", "bypass")]
    decode, stores = [r for r in hits if r["phase"] == "decode"], [r for r in ok if r["move"] == "store"]
    found: Dict = {
        "tokens_generated": tokens, "elapsed_s": elapsed, "storage_io_s": io, "wall_clock_tok_s": tokens / elapsed,
        "storage_tok_s": tokens / io, "cache_io_tokens_per_sec": tokens / io, "mean_inflight": io / elapsed,
        "decode_read_bytes": sum(r["size_bytes"] for r in decode),
        "decode_read_gib_s": sum(r["size_bytes"] for r in decode) / GIB / elapsed,
        "prefill_write_bytes": sum(r["size_bytes"] for r in stores),
        "recomputed_tokens": sum(
            r["tokens"] for r in rows if r["move"] == "miss" or (r["move"] == "bypass" and r["seq"] == 0)
        ),
        "evictions": sum(r["move"] in ("demote", "drop") for r in rows),
        "logged_ops": sum(r["seq"] == 0 for r in rows),
        "failed_moves": sum(r["status"] == "error" for r in rows),
        "upstream_moves": sum(r["status"] == "upstream" for r in rows),
    }  # fmt: skip
    for name, weigh in (("", lambda r: 1), ("_tokens", lambda r: r["tokens"])):
        total = lambda group, weigh=weigh: sum(map(weigh, group))  # noqa: E731
        reuse = [[r for r in group if r["source"] != "user"] for group in (hits, reads)]
        found[f"hit_rate{name}"] = ratio(total(hits), total(reads))
        found[f"hit_rate_reuse{name}"] = ratio(total(reuse[0]), total(reuse[1]))
        found[f"hit_rate_refs{name}"] = ratio(total(hits), total(reads) + total(writes))
    for source in ENUMS["source"]:
        mine = [[r for r in group if r["source"] == source] for group in (hits, reads)]
        found[f"{source}_hit_rate"] = ratio(len(mine[0]), len(mine[1]))
    for kind in MOVES:
        name = {"miss": "misses", "bypass": "bypasses"}.get(kind, f"{kind}s")
        found[name] = sum(r["move"] == kind for r in rows)
    through = {"read": 0, "write": 0}
    for tier in TIERS:
        found[f"{tier}_decode_read_bytes"] = sum(r["size_bytes"] for r in decode if r["from_tier"] == tier)
        found[f"{tier}_prefill_write_bytes"] = sum(r["size_bytes"] for r in stores if r["to_tier"] == tier)
        found[f"{tier}_hits"] = sum(r["from_tier"] == tier for r in hits)
        found[f"{tier}_hit_rate"] = ratio(found[f"{tier}_hits"], len(reads))
        for side, column, kinds in (
            ("read", "from_tier", ("hit", "promote", "demote")),
            ("write", "to_tier", ("store", "demote")),
        ):
            mine = [r for r in ok if r[column] == tier and r["move"] in kinds]
            size, name = sum(r["size_bytes"] for r in mine), f"{tier}_{side}"
            through[side] += size
            found[f"{name}_bytes"], found[f"{name}_gib_s"] = size, size / GIB / elapsed
            found[f"{name}_busy_gib_s"] = ratio(size / GIB, union(mine))
            found |= spread([r[f"{side}_ns"] / 1e6 for r in mine], name)
            found |= spread([r[f"device_{side}_ns"] / 1e6 for r in mine], f"{name}_device")
            for split, wanted in (("foreground", False), ("eviction", True)):
                part = [r[f"{side}_ns"] / 1e6 for r in mine if (r["move"] == "demote") == wanted]
                found |= spread(part, f"{name}_{split}")
    nvme = [r for r in ok if "nvme" in (r["from_tier"], r["to_tier"]) and r["move"] not in ("drop", "delete")]
    found["nvme_tokens_processed"] = sum(r["tokens"] for r in nvme)
    found["nvme_tok_s"] = found["nvme_tokens_processed"] / elapsed
    found["read_write_ratio"] = ratio(through["read"], through["write"])
    requests: dict[int, list[Dict]] = {}
    for row in rows:
        if row["move"] not in ("demote", "drop"):
            requests.setdefault(row["request_id"], []).append(row)
    for name, late, early in (("queue", "start_ns", "ready_ns"), ("plan_wait", "ready_ns", "due_ns")):
        found |= spread([sum(r[late] - r[early] for r in group) / 1e6 for group in requests.values()], name)
    groups, due = list(requests.values()), [min(r["due_ns"] for r in g) for g in requests.values()]
    late = [(min(r["start_ns"] for r in g) - at) / 1e6 for g, at in zip(groups, due, strict=True)]
    ends = [
        (max(r["end_ns"] + r["new_tokens"] * TOKEN_NS for r in g) - at) / 1e6 for g, at in zip(groups, due, strict=True)
    ]
    generation = [sum(r["new_tokens"] for r in g) * TOKEN_NS / 1e6 for g in groups]
    found |= spread(late, "lateness") | spread(generation, "generation") | {"drain_s": 1.5}
    return found | spread(ends, "e2e")


@pytest.mark.parametrize(("seed", "count", "parts"), [(1, 400, 3), (2, 30, 1), (3, 1, 1)])
def test_every_metric_against_plain_python(tmp_path: Path, seed: int, count: int, parts: int) -> None:
    rows = make_rows(seed, count)
    found = summary.summarise(write_run(tmp_path / "run", rows, parts))
    expected = reference(rows)
    metrics = set(found) - {"run", "valid", "findings", "warnings", "status", "executed_ops", "conditions"}
    assert metrics - {"trace_fingerprint", "plan_fingerprint"} == set(expected), "no metric goes unchecked"
    same(found, expected)


def same(found: Dict, expected: Dict) -> None:
    for name, value in expected.items():
        if isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-9), name
        else:
            assert found[name] == value, name


def test_rows_of_the_warm_up_do_not_count(tmp_path: Path) -> None:
    rows = make_rows(4, 100)
    warm = [row | {"warmup": True} for row in make_rows(5, 50)]
    found = summary.summarise(write_run(tmp_path / "run", rows + warm))
    assert found["tokens_generated"] == sum(row["new_tokens"] for row in rows)


def test_order_of_rows_and_parts_does_not_matter(tmp_path: Path) -> None:
    rows = make_rows(6, 200)
    one = summary.summarise(write_run(tmp_path / "a", rows, 1))
    random.Random(0).shuffle(rows)
    other = summary.summarise(write_run(tmp_path / "b", rows, 7))
    for name in reference(rows):
        assert one[name] == pytest.approx(other[name]), name


def test_names_carry_their_units(tmp_path: Path) -> None:
    rows = make_rows(1, 50)
    units = (
        "_s",
        "_ms",
        "_bytes",
        "_tokens",
        "_tok_s",
        "_gib_s",
        "_rate",
        "_ratio",
        "_processed",
        "_generated",
        "_sec",
    )
    counts = {
        "logged_ops",
        "evictions",
        "failed_moves",
        "upstream_moves",
        "mean_inflight",
        "hit_rate_reuse",
        "hit_rate_refs",
    }
    for name in reference(rows):
        plain = name.split("_", 1)[1] if name.startswith(TIERS) else name
        assert name.endswith(units) or name in counts or plain in {"hits", "misses", "bypasses"} or plain[:-1] in MOVES


def test_every_metric_says_how_it_is_computed() -> None:
    for name, metric in METRICS.items():
        assert metric.__name__ == name
        assert metric.__doc__
        assert len(metric.__doc__.splitlines()) > 1 or "=" in metric.__doc__, f"{name} gives no formula"


# Verdicts


@pytest.fixture(scope="session")
def replays(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("replays")
    trace = place / "trace.parquet"
    run("tracegen", "generate", DEMO, "--requests", 60, "-o", trace)
    for name, workers in (("one", 1), ("many", 32)):
        command = ["--model", "tiny-1b", "--cpu-mem-gb", "0.05", "--cache-dir", place / "cache", "--workers", workers]
        run("replayer", "run", trace, *command, "-o", place / name)
    return [place / "one", place / "many"]


def test_equal_plans_do_equal_work(run: Run, replays: list[Path]) -> None:
    shown = run("analysis", "summary", *replays).stdout
    assert shown.count("VALID: ") == 2
    assert "NOT VALID" not in shown
    ending = shown.splitlines()[-1]
    assert re.fullmatch(
        r"2 runs, same work: trace \w{12}…, plan \w{12}… and every count are equal, only times differ\.", ending
    )
    one, many = json.loads(run("analysis", "summary", *replays, "--json").stdout)
    assert one["elapsed_s"] != many["elapsed_s"]
    assert one["findings"] == []


def copy_of(run: Path, place: Path) -> Path:
    import shutil

    return Path(shutil.copytree(run, place / "copy"))


def test_a_missing_row_is_found(replays: list[Path], tmp_path: Path) -> None:
    copy = copy_of(replays[0], tmp_path)
    (part, *_) = sorted((copy / "moves").iterdir())
    table = pq.read_table(part)
    pq.write_table(table.slice(0, len(table) - 40), part)
    found = summary.summarise(copy)
    assert not found["valid"]
    assert any("parts are missing or altered" in finding for finding in found["findings"])


def test_a_run_of_no_duration_has_no_rates(tmp_path: Path) -> None:
    row = make_rows(1, 1)[0] | {"start_ns": 5, "end_ns": 5, "new_tokens": 3}
    found = summary.summarise(write_run(tmp_path / "run", [row]))
    assert found["elapsed_s"] == 0
    assert found["wall_clock_tok_s"] is None
    json.dumps(found, allow_nan=False)


def test_unlike_work_is_named(replays: list[Path], tmp_path: Path) -> None:
    one = summary.summarise(replays[0])
    other = one | {"plan_fingerprint": "x", "cpu_hits": 1, "elapsed_s": 99.0}
    assert summary.differences([one, other]) == ["cpu_hits", "plan_fingerprint"]


def damaged(copy: Path, what: str) -> None:
    info = read_run(copy)
    (part, *_) = sorted((copy / "moves").iterdir())
    if what == "no run.json":
        (copy / "run.json").unlink()
    elif what == "run.json cut off":
        (copy / "run.json").write_text((copy / "run.json").read_text()[:100])
    elif what == "run.json of no run":
        (copy / "run.json").write_text('{"run_version": 1}')
    elif what == "newer":
        (copy / "run.json").write_text(json.dumps(info | {"run_version": 2}))
    elif what == "no parts":
        for one in (copy / "moves").iterdir():
            one.unlink()
    elif what == "part cut off":
        part.write_bytes(part.read_bytes()[:-50])
    elif what == "part damaged inside":
        content = bytearray(part.read_bytes())
        middle = slice(100, len(content) * 3 // 4)
        content[middle] = bytes(len(content[middle]))
        part.write_bytes(content)
    elif what == "part of something else":
        pl.DataFrame({"a": [1]}).write_parquet(part)


@pytest.mark.parametrize(
    "what",
    ["no run.json", "run.json cut off", "run.json of no run", "newer", "no parts", "part cut off"]
    + ["part damaged inside", "part of something else"],
)
def test_damaged_runs_are_refused_in_one_sentence(run: Run, replays: list[Path], tmp_path: Path, what: str) -> None:
    copy = copy_of(replays[0], tmp_path)
    damaged(copy, what)
    done = run("analysis", "summary", copy, ok=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert str(copy) in done.stderr
    assert done.stdout == ""


def test_parts_are_refused_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        summary.summarise(tmp_path)


# Many ranks


def ranks(place: Path, *statuses: str) -> tuple[Path, list[list[Dict]]]:
    """A run of as many ranks, each with rows of its own, rank r let go r ms after rank 0."""
    rows = [make_rows(seed, 50) for seed in range(len(statuses))]
    for rank, (status, mine) in enumerate(zip(statuses, rows, strict=True)):
        for row in mine:
            row |= {"rank": rank}
        clock = {"zero_ns": 10**18 + rank * 10**6}
        write_run(place / f"rank-{rank:04}", mine, rank=rank, status=status, clock=clock)
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": len(statuses), "status": "running"}))
    return place, rows


def test_ranks_are_one_run(tmp_path: Path) -> None:
    place, rows = ranks(tmp_path / "run", "failed", "failed")
    for rank, mine in enumerate(rows):
        for row in mine:
            row |= {"request_id": row["request_id"] + 1000 * rank}  # ranks share no requests
            row |= {name: row[name] + rank * 10**6 for name in ("due_ns", "ready_ns", "start_ns", "end_ns")}
    found = summary.summarise(place)
    same(found, reference(rows[0] + rows[1]))
    assert found["conditions"]["ranks"] == 2


def test_a_rank_that_is_missing_or_was_killed_is_named(tmp_path: Path) -> None:
    place, _ = ranks(tmp_path / "run", "complete", "running", "complete")
    shutil.rmtree(place / "rank-0002")
    found = summary.summarise(place)
    assert not found["valid"]
    assert "rank 1 is incomplete" in " ".join(found["findings"])
    assert "rank 2 of 3 is missing" in " ".join(found["findings"])
    for rank in (0, 1):
        shutil.rmtree(place / f"rank-{rank:04}")
    with pytest.raises(InputError, match="none of its 3 ranks"):
        summary.summarise(place)


def test_ranks_that_did_not_say_when_they_began_have_no_age(tmp_path: Path) -> None:
    place, _ = ranks(tmp_path / "run", "complete", "running")
    info = json.loads((place / "rank-0001" / "run.json").read_text())
    del info["clock"]
    (place / "rank-0001" / "run.json").write_text(json.dumps(info))
    found = summary.summarise(place)
    assert found["elapsed_s"] < 10
    assert found["status"] == "running"


def test_the_status_of_ranks_is_that_of_the_worst(tmp_path: Path) -> None:
    place, _ = ranks(tmp_path / "run", "complete", "failed")
    assert summary.summarise(place)["status"] == "failed"
    place, _ = ranks(tmp_path / "run2", "complete", "complete")
    shutil.rmtree(place / "rank-0001")
    for info in place.glob("rank-*/run.json"):
        content = json.loads(info.read_text())
        content["conditions"]["ranks"] = 2
        info.write_text(json.dumps(content))
    assert summary.summarise(place)["status"] == "failed"


def test_a_run_of_warm_up_alone_measures_nothing(tmp_path: Path) -> None:
    warm = [row | {"warmup": True} for row in make_rows(5, 50)]
    found = summary.summarise(write_run(tmp_path / "run", warm, warmup={"ops": 50, "end_ns": None}))
    assert not found["valid"]
    assert "every op that was executed is warm-up" in " ".join(found["findings"])
