"""Generation of a trace from a recipe.

It opens the recipe's sources, schedules their sessions, turns requests into ops and writes them.
"""

import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tracegen.arrays import Ints, milliseconds_to_ns, to_ns
from tracegen.console.interrupts import WORDS
from tracegen.derive.derivation import merge_shards
from tracegen.errors import InputError, ToolError
from tracegen.progress import Progress, ignore_progress
from tracegen.recipes.recipe import Recipe, UserKind
from tracegen.sources import sharegpt, tokenizers
from tracegen.sources.personas import PersonaSource
from tracegen.sources.sessions import Source
from tracegen.trace.columns import Columns
from tracegen.trace.metadata import Metadata
from tracegen.trace.writing import TraceWriter
from tracegen.workload.ops import make_ops
from tracegen.workload.schedule import Schedule, list_users


def _open_source(name: str, recipe: Recipe, metadata: Metadata, progress: Progress) -> Source:
    """Open the source with this name among the weights in a recipe's `mix`."""
    if name == "rag":
        return PersonaSource(recipe, [recipe.rag.users], contains_prefix=False, retrieves=1)
    if name == "personas":
        personas = [persona for persona in recipe.personas.values() if persona.weight]
        return PersonaSource(recipe, personas, [persona.weight for persona in personas])
    path = Path(recipe.sharegpt.path)
    tokenizer = tokenizers.load_tokenizer(recipe.tokenizer)
    metadata.tokenizer = {"name": tokenizer.name, "digest": tokenizer.digest}
    with progress("tokenizing", "B", path.stat().st_size if path.is_file() else 0) as advance:
        return sharegpt.ShareGPTSource(recipe, tokenizer, advance)


def generate(
    recipe: Recipe,
    output: Path,
    *,
    shard: tuple[int, int] = (0, 1),
    jobs: int = 1,
    part_ops: int = 0,
    force: bool = False,
    progress: Progress = ignore_progress,
) -> Metadata:
    """Write the trace of a recipe, and return its metadata.

    Equal recipes and input files give equal fingerprints on every machine, for any number of jobs.

    Args:
        recipe: the resolved recipe.
        output: the trace.
        shard: (i, n) writes the i-th of n shards, divided by users, for `merge`; i counts from 0.
        jobs: number of processes.
        part_ops: write a folder of files with this many ops each; 0 writes one file.
        force: replace the output.
        progress: shows the progress of reading texts and of writing requests.

    Raises:
        InputError: the recipe makes no trace, an input is unusable, or the output exists and
            `force` is false.
        ToolError: one of the processes died.
    """
    check_sources(recipe)
    metadata = _describe(recipe)
    if shard[1] > 1:
        metadata.part = {"index": shard[0], "of": shard[1]}
    with TraceWriter(output, metadata, force=force, part_ops=part_ops) as writer:
        sources = open_sources(recipe, metadata, progress)
        users = list_users(recipe, sources)
        make = batches if jobs == 1 else partial(_generate_in_processes, jobs=jobs)
        requests = 0
        with progress("writing", "req", recipe.requests or None) as advance:
            for batch in make(recipe, sources, users[users % shard[1] == shard[0]]):
                writer.write(batch)
                begun = int(batch["request_id"].max(initial=requests - 1)) + 1
                advance(begun - requests)
                requests = begun
        if not writer.ops:
            if shard[0] >= recipe.users + recipe.documents:  # documents are users, too
                raise InputError(f"shard {shard[0]} of {shard[1]} has no user", "merge the others without it")
            subject = f"recipe key duration_s = {recipe.duration_s}"
            raise InputError("no request arrives before then", "allow more time", subject=subject)
    return metadata


def _describe(recipe: Recipe) -> Metadata:
    """Make the metadata of a recipe's trace, before its sources are opened."""
    # Phrases and chunks can follow any prompt, so their blocks do not identify what is before them.
    is_chained = bool(recipe.block_tokens and not recipe.common.share and not recipe.retrieves)
    return Metadata(
        seed=recipe.seed,
        recipe=strip_folders(recipe),
        generator=f"kv-tier-bench {version('kv-tier-bench')}",
        block_tokens=recipe.block_tokens or None,
        prefix_chained=is_chained,
    )


def batches(recipe: Recipe, sources: list[Source], users: Ints) -> Iterator[Columns]:
    """Yield the ops of these users of a recipe in order, with the columns of a shard; shape (users,), ascending."""
    schedule = Schedule(recipe, sources)
    stream = make_ops(
        schedule.requests(users),
        decode_batch=recipe.decode_batch,
        token_ns=milliseconds_to_ns(recipe.decode_token_ms),
        shared=schedule.shared.count,
    )
    for batch in stream:
        shared = np.where(batch["object"] < schedule.shared.count, batch["object"], -1)
        yield batch | {"person": users[batch["user_id"]], "shared": shared}


def _generate_in_processes(recipe: Recipe, sources: list[Source], users: Ints, jobs: int) -> Iterator[Columns]:
    """Yield the ops of a recipe, whose users `jobs` processes share among them."""
    context = get_context("spawn")
    streams = []
    workers = []
    # A terminal's Ctrl-C reaches all processes. Workers inherit blocked signals, and this process
    # kills them. Python's resource tracker would unblock signals when it starts, so it starts first.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, WORDS)
    try:
        for number in range(min(jobs, len(users))):
            receiver, sender = context.Pipe(duplex=False)
            arguments = (sender, recipe, sources, users[number::jobs])
            workers.append(context.Process(target=_send_batches, args=arguments, daemon=True))
            workers[-1].start()
            sender.close()
            streams.append(_receive_batches(receiver))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        yield from merge_shards(streams, users)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        for worker in workers:
            worker.kill()
            worker.join()


def _send_batches(sender: Connection, recipe: Recipe, sources: list[Source], users: Ints) -> None:
    """Send the batches of these users, then None; or the error that ended them."""
    with suppress(BrokenPipeError):  # the parent has gone
        try:
            for batch in batches(recipe, sources, users):
                sender.send(batch)
            sender.send(None)
        except InputError as error:
            sender.send(error)


def _receive_batches(receiver: Connection) -> Iterator[Columns]:
    try:
        while isinstance(batch := receiver.recv(), dict):
            yield batch
    except EOFError:
        raise ToolError("a process of `jobs` ended too early", "is memory short?") from None
    if batch is not None:
        raise batch


def open_sources(recipe: Recipe, metadata: Metadata, progress: Progress = ignore_progress) -> list[Source]:
    """Open the recipe's sources and record their files and counts in the metadata."""
    sources = []
    for name in recipe.weights:
        source = _open_source(name, recipe, metadata, progress)
        metadata.sources += source.origin.files
        metadata.counts |= source.origin.counts
        sources.append(source)
    return sources


def check_sources(recipe: Recipe) -> None:
    """Refuse a recipe whose sources are missing, unused or endless."""
    weights = recipe.weights
    if not weights:
        remedy = "name a ShareGPT file with `sharegpt.path`, or set recipe key mix.personas = 1"
        raise InputError("the recipe has no source", remedy)
    if "sharegpt" in weights and not recipe.sharegpt.path:
        problem = "mix.sharegpt has a weight but there is no file"
        raise InputError(problem, "name one with `sharegpt.path`")
    if recipe.sharegpt.path and "sharegpt" not in weights:
        problem = "`sharegpt.path` names a file but mix.sharegpt is 0"
        raise InputError(problem, "set recipe key mix.sharegpt = 1")
    endless = [name for name in weights if name != "sharegpt"]
    if endless and not (recipe.duration_s or recipe.requests):
        remedy = "limit the trace with `duration_s` or `requests`"
        raise InputError(f"source {endless[0]} has no end", remedy)
    thinks = recipe.open_loop or to_ns(recipe.think_s[1]) > 0
    if endless and "sharegpt" in weights and not thinks:
        problem = "ShareGPT users in an endless mix would ask without a pause"
        raise InputError(problem, "set recipe key think_s to more than 0")
    token_ns = milliseconds_to_ns(recipe.decode_token_ms)
    people: dict[str, UserKind] = {}
    if "personas" in weights:
        people |= {f"personas.{name}": persona for name, persona in recipe.personas.items() if persona.weight}
    if "rag" in weights:
        people["rag.users"] = recipe.rag.users
    for name, person in people.items():
        takes_time = to_ns(person.think_s[0]) > 0 or (token_ns and person.generation[0])
        if not recipe.open_loop and not takes_time:
            problem = f"{name} could send endlessly many requests at one time"
            keys = "its think_s, or of its generation and of recipe key decode_token_ms"
            raise InputError(problem, f"raise the lower limit of {keys}")


def strip_folders(recipe: Recipe) -> dict[str, Any]:
    """Return the resolved recipe as a dictionary, without the folders of this machine."""
    name = Path(recipe.sharegpt.path).name
    replay = recipe.replay
    if recipe.decode_reads and replay.decode == "none":  # who asks for these reads replays them
        replay = replace(replay, decode="reread")
    return asdict(replace(recipe, sharegpt=replace(recipe.sharegpt, path=name), replay=replay))
