"""A serving engine whose scheduler decides the order of a plan (`docs/serving.md`, `core/serving.c`)."""

from pathlib import Path
from typing import Final

from replayer.arrangements.arrangement import Arrangement, SchedulerRules
from replayer.arrangements.rules import Usable
from replayer.bindings.compiled import ServingStruct
from replayer.planning.workload import Workload
from replayer.record.options import Lookup
from tracegen.errors import InputError

_GIB: Final = 2**30
_MANY_BLOCKS: Final = 1 << 30  # more than any trace has


def find_serving_obstacle(arrangement: Arrangement, usable: Usable, lookup: Lookup | None) -> str | None:
    """Return why the engine's scheduler cannot make a plan; None: it can."""
    gpu, cpu, nvme = usable
    if not gpu:
        return "there is no gpu tier, whose blocks requests would hold"
    if nvme:
        return "its file tier has no capacity, as nothing is ever removed from nvme"
    if nvme is None and not cpu:
        return "its file tier is behind a cpu tier"
    if lookup == "independent":
        return "its blocks are not looked up one by one"
    return arrangement.obstacle_to_serving()


def make_serving_rules(scheduler: SchedulerRules, usable: Usable, block_tokens: int, block_bytes: int) -> ServingStruct:
    """Return the rules of a serving engine as compiled code reads them."""
    # Compiled code counts blocks in 32 bits.
    most = (_MANY_BLOCKS if size is None else min(size // block_bytes, _MANY_BLOCKS) for size in usable[:2])
    gpu, cpu = most
    return ServingStruct(
        block_tokens,
        gpu,
        cpu,
        scheduler.max_num_seqs,
        scheduler.max_num_batched_tokens,
        round(scheduler.step_ms * 10**6),
        scheduler.tokens_per_s,
        usable[2] is None,
        scheduler.transfer_steps,
        scheduler.read_steps,
        scheduler.write_steps,
    )


def check_longest_request(workload: Workload, rules: ServingStruct, block_bytes: float, trace: Path) -> None:
    """Refuse a gpu that cannot hold the longest request.

    Args:
        workload: the requests.
        rules: the engine's.
        block_bytes: that a block takes of the gpu's capacity, with headroom.
        trace: for the message.

    Raises:
        InputError: the request would never be admitted.
    """
    request, needed = workload.longest_request(rules.block_tokens)
    if needed > rules.gpu_blocks:
        raise InputError(
            f"it needs {needed:,} blocks of {rules.block_tokens} tokens, and gpu has room for {rules.gpu_blocks:,}",
            f"pass `gpu_mem_gb` of {needed * block_bytes / _GIB:.4g} or more",
            subject=f"{trace}, request {request}",
        )
