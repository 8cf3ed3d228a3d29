"""Generation of a trace from a recipe.

It opens the recipe's sources, schedules their sessions, turns requests into ops and writes them.
"""

import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tracegen.arrays import milliseconds_to_ns, to_ns
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
from tracegen.workload.schedule import Schedule, TraceEnd, list_users, survey


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
    jobs: int = 1,
    force: bool = False,
    progress: Progress = ignore_progress,
) -> Metadata:
    """Write the trace of a recipe, and return its metadata.

    Equal recipes and input files give equal fingerprints on every machine, for any number of jobs.

    Args:
        recipe: the resolved recipe.
        output: the trace.
        jobs: number of processes.
        force: replace the output.
        progress: shows the progress of reading texts and of writing requests.

    Raises:
        InputError: the recipe makes no trace, an input is unusable, or the output exists and
            `force` is false.
        ToolError: one of the processes died.
    """
    check_sources(recipe)
    metadata = _describe(recipe)
    jobs = min(jobs, recipe.users + recipe.documents)  # documents are users, too
    with TraceWriter(output, metadata, force=force) as writer:
        sources = open_sources(recipe, metadata, progress)
        cut = survey(recipe, sources)
        if jobs > 1:
            stream = generate_in_processes(recipe, sources, cut, jobs)
        else:
            stream = batches(recipe, sources, (0, 1), cut)
        requests = 0
        with progress("writing", "req", recipe.requests or None) as advance:
            for batch in stream:
                writer.write(batch)
                begun = int(batch["request_id"].max(initial=requests - 1)) + 1
                advance(begun - requests)
                requests = begun
        if not writer.ops:
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


def batches(recipe: Recipe, sources: list[Source], shard: tuple[int, int], cut: TraceEnd | None) -> Iterator[Columns]:
    """Yield the ops of shard (i, n) of a recipe, up to the end that `survey` found, as `merge_shards` takes them."""
    schedule = Schedule(recipe, sources, shard, cut)
    users = list_users(recipe, sources, shard, cut)
    token_ns = milliseconds_to_ns(recipe.decode_token_ms)
    stream = make_ops(
        schedule.requests(users), decode_batch=recipe.decode_batch, token_ns=token_ns, shared=schedule.shared.count
    )
    for batch in stream:
        yield batch | {"person": users[batch["user_id"]]}


def generate_in_processes(recipe: Recipe, sources: list[Source], cut: TraceEnd | None, jobs: int) -> Iterator[Columns]:
    """Yield the ops of a recipe, whose shards are generated by `jobs` processes."""
    context = get_context("spawn")
    streams = []
    workers = []
    # A terminal's Ctrl-C reaches all processes. Workers inherit blocked signals, and this process
    # kills them. Python's resource tracker would unblock signals when it starts, so it starts first.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, WORDS)
    try:
        for number in range(jobs):
            receiver, sender = context.Pipe(duplex=False)
            arguments = (sender, recipe, sources, (number, jobs), cut)
            workers.append(context.Process(target=_send_shard, args=arguments, daemon=True))
            workers[-1].start()
            sender.close()
            streams.append(_receive_shard(receiver, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        yield from merge_shards(streams, list_users(recipe, sources, end=cut))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        for worker in workers:
            worker.kill()
            worker.join()


def _send_shard(
    sender: Connection, recipe: Recipe, sources: list[Source], shard: tuple[int, int], cut: TraceEnd | None
) -> None:
    """Send a shard's batches, then None; or the error that ended it."""
    try:
        for batch in batches(recipe, sources, shard, cut):
            sender.send(batch)
        sender.send(None)
    except InputError as error:
        sender.send(error)
    except BrokenPipeError:
        pass  # the parent has gone


def _receive_shard(receiver: Connection, number: int) -> Iterator[Columns]:
    while True:
        try:
            batch = receiver.recv()
        except EOFError:
            raise ToolError(f"process {number} of `jobs` ended too early", "is memory short?") from None
        if isinstance(batch, InputError):
            raise batch
        if batch is None:
            return
        yield batch


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
