"""Counts of a server: the metrics that engines have, and scrapes of /metrics read from files."""

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from tracegen.errors import InputError, quote_value

# Largest file that is read
MOST_BYTES: Final = 1 << 28
PROMPT: Final = "prompt tokens"
GPU: Final = "hit in gpu"
CPU: Final = "hit in cpu"
NVME: Final = "hit in nvme"
BELOW: Final = "hit below gpu"
ANYWHERE: Final = "hit anywhere"
ASKED: Final = "asked below gpu"
STORED: Final = "stored in cpu"
GPU_ROOM: Final = "room of gpu"
CPU_ROOM: Final = "room of cpu"
HELD: Final = "held of gpu"
PREEMPTED: Final = "preemptions"
DROPPED: Final = ("stores dropped", "blocks dropped", "tokens dropped", "promotions dropped", "evictions failed")
# The count, its unit, its metric, and what the metric's labels must have, as read in vLLM 0.32, SGLang's
# metrics_collector.py and LMCache's observability.py. The first row that was scraped counts. LMCache's own hits
# are left out: they count the prompts that it loads, and the engine in front of it counts them all.
_TABLE: Final = """
prompt tokens       tokens    vllm:prefix_cache_queries
prompt tokens       tokens    sglang:prompt_tokens
hit in gpu          tokens    vllm:prefix_cache_hits
hit in gpu          tokens    sglang:cached_tokens                                       cache_source="device"
hit in cpu          tokens    vllm:prompt_tokens_cached_by_source                        source="host"
hit in cpu          tokens    sglang:cached_tokens                                       cache_source="host"
hit in nvme         tokens    vllm:prompt_tokens_cached_by_source                        source="disk"
hit in nvme         tokens    sglang:cached_tokens                                       cache_source="storage
hit below gpu       tokens    vllm:external_prefix_cache_hits
hit anywhere        tokens    sglang:cached_tokens                                       cache_source="total"
asked below gpu     tokens    vllm:external_prefix_cache_queries
stored in cpu       bytes     vllm:kv_offload_store_bytes
stored in cpu       bytes     vllm:kv_offload_total_bytes                                transfer_type="GPU_to_CPU"
stored in cpu       tokens    lmcache:num_stored_tokens
stores dropped      stores    vllm:kv_offload_allocation_failure
blocks dropped      blocks    vllm:kv_offload_tiering_backpressure_blocks_dropped
tokens dropped      tokens    sglang:hicache_backup_dropped_tokens
promotions dropped  blocks    vllm:kv_offload_tiering_promotion_allocation_failures
evictions failed    keys      lmcache:local_cpu_evict_failed_count
room of gpu         gauge     sglang:max_total_num_tokens
room of cpu         gauge     sglang:hicache_host_total_tokens
held of gpu         share     vllm:kv_cache_usage_perc
held of gpu         share     sglang:token_usage
preemptions         requests  vllm:num_preemptions
preemptions         requests  sglang:num_retracted_requests
"""
_ROW: Final = re.compile(r"^(.+?)  +(\w+) +(\S+) *(.*)$", re.M)
_ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang"}
_START: Final = "process_start_time_seconds"
_CONFIG: Final = "vllm_cache_config_info"
_SAMPLE: Final = re.compile(r"([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+[-+.\d]+)?(?:\s+#.*)?")
_GIB: Final = 2**30
_REMEDY: Final = "scrape /metrics of the server again, as with curl -o"


class Sample(NamedTuple):
    """A value of a scrape.

    Attributes:
        metric: its name as all exporters write it: some replace the colon, some leave `_total` out.
        labels: as the text of /metrics has them.
        value: of the series.
    """

    metric: str
    labels: str
    value: float


class _Queried(Struct):
    """A series in the answer to a query of Prometheus, with its moment and value."""

    metric: dict[str, str]
    value: tuple[float, str]


class _Result(Struct):
    result: list[_Queried]


class _Query(Struct):
    data: _Result


def _plain(name: str) -> str:
    return name.replace(":", "_").removesuffix("_total")


def read_scrape(path: Path) -> list[Sample]:
    """Read a scrape: the text of /metrics, or the JSON that a query of Prometheus answers.

    Raises:
        InputError: the file cannot be read, is cut off, or is neither.
    """
    text = _read_text(path)
    try:
        if text.startswith("{"):
            return list(map(_convert, msgspec.json.decode(text, type=_Query).data.result))
        if not text.endswith("\n"):
            raise ValueError("it is cut off: its last line has no end")
        lines = enumerate(map(str.strip, text.splitlines()), 1)
        return [_parse_line(number, line) for number, line in lines if line and line[0] != "#"]
    except ValueError as error:
        raise InputError(f"is no scrape of metrics ({error})", _REMEDY, subject=path, setting="metrics") from None


def _convert(series: _Queried) -> Sample:
    labels = " ".join(f'{name}="{value}"' for name, value in series.metric.items())
    return Sample(_plain(series.metric.get("__name__", "")), labels, float(series.value[1]))


def _parse_line(number: int, line: str) -> Sample:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(f"line {number} is {quote_value(line)}")
    return Sample(_plain(match[1]), match[2] or "", float(match[3]))


def count_server(paths: Sequence[Path], bytes_per_token: int) -> tuple[str, dict[str, float]]:
    """Return the name of a server's engine, and what it counted by the names of the table.

    Args:
        paths: of its scrapes in their order: of one, counters count since the server's start; of
            several from the first to the last, and gauges are the most of all.
        bytes_per_token: that make bytes tokens.

    Raises:
        InputError: a file is no scrape, none counts prompt tokens, or the server was started again.
    """
    scrapes = [read_scrape(path) for path in paths]
    counts = _measure_room(scrapes[-1], bytes_per_token)
    engine = ""
    if len({sample.value for scrape in scrapes for sample in scrape if sample.metric == _START}) > 1:
        raise _refuse(paths[-1], "the server was started again between the scrapes")
    for count, unit, metric, labels in _ROW.findall(_TABLE):
        add = max if unit == "share" else sum
        values = [_add_up(scrape, _plain(metric), labels, add) for scrape in scrapes]
        if count in counts or values[-1] is None:
            continue
        # A counter with labels is shown from its first count on: what an earlier scrape lacks was 0.
        known = [value or 0.0 for value in values]
        is_gauge = unit in ("gauge", "share")
        for before, after in pairwise([0.0, *known]):
            if not (0 if is_gauge else before) <= after < math.inf:
                raise _refuse(paths[-1], f"{metric} goes from {before:,.0f} to {after:,.0f}")
        grown = known[-1] - (known[0] if len(known) > 1 else 0)
        counts[count] = max(known) if is_gauge else grown // (bytes_per_token if unit == "bytes" else 1)
        engine = engine or _ENGINES.get(metric.split(":")[0], "")
    if not counts.get(PROMPT):
        problem = "counts no prompt tokens of vLLM or SGLang"
        raise InputError(problem, "scrape the server's own /metrics after the load", subject=paths[-1])
    return engine, counts


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8-sig")
        problem = f"larger than {MOST_BYTES >> 20} MiB"
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or 'it is not text'})"
    raise InputError(problem, "pass the file that the tool itself wrote", subject=path, setting="metrics")


def _refuse(path: Path, problem: str) -> InputError:
    remedy = "take all scrapes from one run of the server, or name the last alone"
    return InputError(problem, remedy, subject=path, setting="metrics")


def _add_up(scrape: Sequence[Sample], metric: str, labels: str, add: Callable[[list[float]], float]) -> float | None:
    """Return the values of the series with these labels as one; None if the scrape lacks the metric."""
    known = [sample for sample in scrape if sample.metric == metric]
    return add([sample.value for sample in known if labels in sample.labels]) if known else None


def _measure_room(scrape: Sequence[Sample], bytes_per_token: int) -> dict[str, float]:
    """Return the tokens that vLLM's tiers hold, as far as the configuration of its cache says."""
    room: dict[str, float] = {}
    for labels in (sample.labels for sample in scrape if sample.metric == _CONFIG):
        numbers = {name: float(value) for name, value in re.findall(r'(\w+)="(\d+(?:\.\d+)?)"', labels)}
        if numbers.keys() >= {"num_gpu_blocks", "block_size"}:
            # One block stands for none, and holds nothing.
            room[GPU_ROOM] = room.get(GPU_ROOM, 0) + (numbers["num_gpu_blocks"] - 1) * numbers["block_size"]
        if "kv_offloading_size" in numbers:
            room[CPU_ROOM] = numbers["kv_offloading_size"] * _GIB // bytes_per_token
    return room
