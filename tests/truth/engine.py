"""A load on vLLM's own scheduler, cache manager and offloading connector: `python engine.py < load.json > counts.json`.

It needs vLLM's Python and nothing of this project, no GPU and no weights. Only the forward pass, the copies and the clock
are replaced: a request whose tokens are computed gets its next one, and transfers end after a fixed number of steps.
"""

import bisect
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}

import torch
from vllm import SamplingParams
from vllm.config import set_current_vllm_config
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.kv_offload.tiering.base import JobResult
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = str(Path(__file__).parent / "model")
B = 64  # tokens of a block
NO_KEY = 2**63  # and above: tokens of one request alone


def make_scheduler(load, folder):
    spec = FullAttentionSpec(B, num_kv_heads=1, head_size=64, dtype=torch.float16)
    offloading = {"cpu_bytes_to_use": load.cpu * spec.page_size_bytes}
    if load.storage != "0":
        tiers = [{"type": "fs", "root_dir": folder}]
        offloading |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": tiers}
    arguments = json.loads(Path(MODEL, "arguments.json").read_text())
    arguments["kv_transfer_config"]["kv_connector_extra_config"] = offloading
    arguments |= {"max_num_seqs": load.max_num_seqs, "max_num_batched_tokens": load.max_num_batched_tokens}
    config = EngineArgs(MODEL, block_size=B, **arguments).create_engine_config()
    blocks = load.gpu + 1  # one is the null block
    config.cache_config.num_gpu_blocks = blocks
    cache = KVCacheConfig(blocks, [], [KVCacheGroupSpec(["model.layers.0.self_attn.attn"], spec)])
    with set_current_vllm_config(config):
        return Scheduler(config, cache, StructuredOutputManager(config), B, log_stats=True)


def watch(owner, name):
    """Keep the result and the argument of each call of a method."""
    method, calls = getattr(owner, name), []

    def watched(given, *others):
        calls.append((method(given, *others), given))
        return calls[-1][0]

    setattr(owner, name, watched)
    return calls


def pop_ended(ends, step):
    ended = [job for job, end in ends.items() if end <= step]
    for job in ended:
        del ends[job]
    return ended


class TimedDisk:
    """In the place of the file tier's threads and files: a read or a write ends after so many steps."""

    def __init__(self, tier, engine):
        self.engine, self.ends, self.written = engine, {}, {}
        lookups = tier._lookup_manager
        self.answer = lookups._pending_results.put
        lookups._lookup_queue.put(None)  # ends its thread
        lookups._lookup_queue = self
        tier.submit_load = lambda job: self.begin(job, engine.load.read_steps, ())
        tier.submit_store = lambda job: self.begin(job, engine.load.write_steps, job.keys)
        tier.get_finished_jobs = lambda: [JobResult(job, True) for job in pop_ended(self.ends, engine.step)]

    def put(self, asked):
        """Answer the questions of a step; None: there are no more."""
        now = self.engine.step
        self.answer([(key, age, self.written.get(key, now + 1) <= now) for key, _, age in asked or ()])

    def begin(self, job, steps, written):
        self.ends[job.job_id] = self.engine.step + steps
        for key in written:
            self.written.setdefault(key, self.engine.step + steps)


class Engine:
    """The scheduler with all below it, step by step."""

    def __init__(self, load, folder):
        self.load, self.counts = load, Counter()
        self.clock = self.fraction = self.step = 0
        self.answers, self.ended, self.stores, self.loads = {}, [], {}, {}
        self.scheduler = make_scheduler(load, folder)
        init_none_hash(sha256)
        connector = self.scheduler.connector.connector_scheduler
        self.offers, self.reads, self.writes = watch(connector.manager, "prepare_store"), [], []
        for tier in getattr(connector.manager, "secondary_tiers", ()):
            if load.chance != "disk":
                TimedDisk(tier, self)
            self.reads, self.writes = watch(tier, "submit_load"), watch(tier, "submit_store")
        if load.chance != "finishing":
            # vLLM tells its connector of ended requests as a set of strings, whose order follows their hashes.
            build = connector.build_connector_meta
            connector.build_connector_meta = lambda output: build(replace(output, finished_req_ids=self.ended))

    def add(self, number):
        asked = self.load.requests[number]
        tokens = [key for key in asked.blocks for _ in range(B)]
        tokens += [NO_KEY + number] * (asked.prompt + asked.answer - len(tokens))
        self.answers[str(number)] = tokens[asked.prompt :]
        parameters = SamplingParams(max_tokens=asked.answer, ignore_eos=True)
        hasher = get_request_block_hasher(B, sha256)
        request = Request(str(number), tokens[: asked.prompt], parameters, None, block_hasher=hasher)
        self.scheduler.add_request(request)

    def take_step(self):
        """Schedule, compute, and end what ends."""
        self.step += 1
        output = self.scheduler.schedule()
        tokens = output.total_num_scheduled_tokens
        took, self.fraction = divmod(self.fraction + tokens * 10**9, self.load.tokens_per_s)
        took += round(self.load.step_ms * 10**6) // (1 if tokens else 10)
        self.clock += took
        held = self.load.gpu - self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        self.counts.update(busy_ns=took, held_ns=held * took, preemptions=len(output.preempted_req_ids), engine_steps=1)
        batch = {name: place for place, name in enumerate(output.num_scheduled_tokens)}
        done = ModelRunnerOutput(list(batch), batch, [self.sample(name) for name in batch])
        done.kv_connector_output = self.end_transfers(output.kv_connector_metadata)
        (found,) = self.scheduler.update_from_output(output, done).values()
        self.ended = [made.request_id for made in found.outputs if made.finish_reason is not None]
        slower = found.scheduler_stats.connector_prefix_cache_stats
        self.counts.update(hits_gpu=found.scheduler_stats.prefix_cache_stats.hits // B, slower_hits=slower.hits // B)
        self.counts.update(hits_nvme=slower.hits_by_source.get("disk", 0) // B)

    def sample(self, name):
        request = self.scheduler.requests[name]
        is_computed = request.num_computed_tokens >= request.num_tokens
        return [self.answers[name][request.num_output_tokens]] if is_computed else []

    def end_transfers(self, begun):
        """A store begins in the step after the one that makes it, a load at once; a flush ends a store in this step."""
        end = self.step + self.load.transfer_steps
        self.stores |= dict.fromkeys(begun.store_jobs, end)
        self.stores |= dict.fromkeys(begun.jobs_to_flush & self.stores.keys(), self.step)
        self.loads |= {(job, load.req_id): end - 1 for job, load in begun.load_jobs.items()}
        loaded = dict(pop_ended(self.loads, self.step))
        ended = dict.fromkeys([*pop_ended(self.stores, self.step), *loaded], 1)
        return KVConnectorOutput(
            finished_recving=set(loaded.values()), kv_connector_worker_meta=OffloadingWorkerMetadata(ended)
        )

    def serve(self):
        """Serve the whole load; return its counts."""
        coming = sorted((asked.due, number) for number, asked in enumerate(self.load.requests) if asked.due is not None)
        while coming or self.scheduler.has_requests():
            while coming and coming[0][0] <= self.clock and len(self.answers) < self.load.workers:
                self.add(coming.pop(0)[1])
            if self.scheduler.has_requests():
                self.take_step()
            else:
                self.clock = coming[0][0]
            for name in self.ended:
                if self.answers.pop(name, None) and (following := self.load.requests[int(name)].following) is not None:
                    bisect.insort(coming, (self.clock + self.load.requests[following].think_ns, following))
        return self.counts | {
            "stored_to_cpu": sum(len(offered.keys_to_store) for offered, _ in self.offers if offered),
            "nvme_reads": sum(len(job.keys) for _, job in self.reads),
            "nvme_writes": len({key for _, job in self.writes for key in job.keys}),
            "gpu_held": self.counts["held_ns"] / self.counts["busy_ns"] / self.load.gpu,
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        engine = Engine(json.load(sys.stdin, object_hook=lambda fields: SimpleNamespace(**fields)), folder)
        print(json.dumps(engine.serve()), flush=True)
        engine.scheduler.shutdown()
