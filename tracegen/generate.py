"""Recipe in, trace out: open its sources, schedule their sessions, turn requests into ops, write them."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tracegen.console.interrupts import WORDS
from tracegen.derive.combine import joined_parts
from tracegen.errors import InputError, ToolError
from tracegen.files.trace_writer import TraceWriter
from tracegen.recipe.recipe import Recipe, UserKind
from tracegen.schema import Columns, Metadata
from tracegen.sources import sharegpt
from tracegen.sources import tokenizers as tokens
from tracegen.sources.personas import PersonaSource
from tracegen.sources.sessions import Source
from tracegen.times import to_ns
from tracegen.workload.ops import make_ops
from tracegen.workload.schedule import Schedule, TraceEnd, list_users, survey

Open = Callable[[Recipe, Metadata, bool], Source]


def _sharegpt(recipe: Recipe, metadata: Metadata, quiet: bool) -> Source:
    path, tokenizer = Path(recipe.sharegpt.path), tokens.load_tokenizer(recipe.tokenizer)
    size = path.stat().st_size if path.is_file() else 0
    with tqdm(desc="tokenizing", total=size, unit="B", unit_scale=True, disable=quiet or None, leave=False) as bar:
        source = sharegpt.ShareGPTSource(recipe, tokenizer, bar.update)
    metadata.tokenizer = {"name": tokenizer.name, "digest": tokenizer.digest}
    return source


def _personas(recipe: Recipe, metadata: Metadata, quiet: bool) -> Source:  # noqa: ARG001 (the shape of Open)
    kinds = [persona for persona in recipe.personas.values() if persona.weight]
    return PersonaSource(recipe, kinds, [kind.weight for kind in kinds])


def _rag(recipe: Recipe, metadata: Metadata, quiet: bool) -> Source:  # noqa: ARG001 (the shape of Open)
    return PersonaSource(recipe, [recipe.rag.users], contains_prefix=False, retrieves=1)


SOURCES: dict[str, Open] = {"sharegpt": _sharegpt, "personas": _personas, "rag": _rag}
"""Where sessions come from, by the name of the weight in a recipe's `mix`."""


def generate(
    recipe: Recipe,
    output: Path,
    *,
    part: tuple[int, int] | None = None,
    jobs: int = 1,
    part_ops: int = 0,
    force: bool = False,
    quiet: bool = False,
) -> Metadata:
    """Write the trace of a recipe; the same recipe and input files give the same fingerprint on every machine.

    Args:
        recipe: what to make.
        output: the trace.
        part: (i, n) writes the i-th of n parts, by users, for `merge`.
        jobs: processes; the trace is the same for any number.
        part_ops: write a folder of files of so many ops.
        force: replace the output.
        quiet: no progress bars.

    Raises:
        InputError: the recipe makes no trace, an input is unusable, or the output exists and `force` is false.
    """
    check_sources(recipe)
    metadata = Metadata(recipe.seed, portable(recipe), f"kv-tier-bench {version('kv-tier-bench')}")
    metadata.block_tokens = recipe.block_tokens or None
    # Phrases and chunks are found wherever they stand: their blocks are not chained to what is before them.
    metadata.prefix_chained = bool(recipe.block_tokens and not recipe.common.share and not recipe.retrieves)
    if part is not None:
        metadata.part = {"index": part[0], "of": part[1]}
    jobs = min(jobs, recipe.users + recipe.documents)  # parts go by users; documents are users, too
    with TraceWriter(output, metadata, force=force, part_ops=part_ops) as writer:
        sources = open_sources(recipe, metadata, quiet=quiet)
        cut = survey(recipe, sources)
        made = in_jobs(recipe, sources, cut, jobs) if jobs > 1 else batches(recipe, sources, part or (0, 1), cut)
        with tqdm(desc="writing", total=recipe.requests or None, unit="req", disable=quiet or None, leave=False) as bar:
            for batch in made:
                writer.write(batch)
                bar.update(int(batch["request_id"].max(initial=bar.n - 1)) + 1 - bar.n)
        if not writer.ops and part is not None and part[0] >= recipe.users + recipe.documents:
            raise InputError(f"part {part[0]} of {part[1]} has no user; merge does without it.")
        if not writer.ops:
            raise InputError(f"no request arrives within duration_s = {recipe.duration_s}; give it more time.")
    return metadata


def batches(recipe: Recipe, sources: list[Source], part: tuple[int, int], cut: TraceEnd | None) -> Iterator[Columns]:
    """The ops of a recipe's part, with the columns that a merge needs."""
    schedule = Schedule(recipe, sources, part, cut)
    token_ns = to_ns(recipe.decode_token_ms) // 1000
    made = make_ops(
        schedule.requests(), decode_batch=recipe.decode_batch, token_ns=token_ns, shared=schedule.shared.count
    )
    for batch in made:
        yield batch | {"person": schedule.users[batch["user_id"]]}


def in_jobs(recipe: Recipe, sources: list[Source], cut: TraceEnd | None, jobs: int) -> Iterator[Columns]:
    """The ops of a recipe, its parts made by processes of their own.

    Raises:
        ToolError: a process ended without having made its part.
    """
    context = get_context("spawn")
    streams, workers = [], []
    # A terminal's Ctrl-C reaches all processes: workers are born deaf to signals, and are killed by this one. What else
    # Python starts, a tracker, would let signals through again in between: it is started first.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, WORDS)
    try:
        for number in range(jobs):
            receiver, sender = context.Pipe(duplex=False)
            work = (sender, recipe, sources, (number, jobs), cut)
            workers.append(context.Process(target=_work, args=work, daemon=True))
            workers[-1].start()
            sender.close()
            streams.append(_received(receiver, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        yield from joined_parts(streams, list_users(recipe, sources, end=cut))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        for worker in workers:
            worker.kill()
            worker.join()


def _work(
    sender: Connection, recipe: Recipe, sources: list[Source], part: tuple[int, int], cut: TraceEnd | None
) -> None:
    try:
        for batch in batches(recipe, sources, part, cut):
            sender.send(batch)
        sender.send(None)
    except InputError as error:
        sender.send(error)
    except BrokenPipeError:
        pass  # the parent has gone


def _received(receiver: Connection, number: int) -> Iterator[Columns]:
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


def open_sources(recipe: Recipe, metadata: Metadata, *, quiet: bool) -> list[Source]:
    """The recipe's sources, noted in the metadata."""
    sources = []
    for name in recipe.weights:
        source = SOURCES[name](recipe, metadata, quiet)
        metadata.sources += source.origin.files
        metadata.counts |= source.origin.counts
        sources.append(source)
    return sources


def check_sources(recipe: Recipe) -> None:
    """Refuse a recipe whose sources are missing, unused or have no end.

    Raises:
        InputError: says which.
    """
    weights = recipe.weights
    if not weights:
        raise InputError(
            "nothing to make a trace of; name a ShareGPT file with --sharegpt FILE, or give a source a weight, e.g."
            " --set mix.personas=1."
        )
    if "sharegpt" in weights and not recipe.sharegpt.path:
        raise InputError("mix.sharegpt has a weight but there is no file; name one with --sharegpt FILE.")
    if recipe.sharegpt.path and "sharegpt" not in weights:
        raise InputError("--sharegpt names a file but mix.sharegpt is 0; give it a weight, e.g. --set mix.sharegpt=1.")
    endless = [name for name in weights if name != "sharegpt"]
    if endless and not (recipe.duration_s or recipe.requests):
        raise InputError(f"source {endless[0]} has no end; limit the trace with --duration S or --requests N.")
    if endless and "sharegpt" in weights and not recipe.open_loop and to_ns(recipe.think_s[1]) == 0:
        raise InputError("ShareGPT users in an endless mix would ask without pause; give think_s more than 0.")
    people: dict[str, UserKind] = {
        f"personas.{name}": one for name, one in recipe.personas.items() if "personas" in weights and one.weight
    }
    if "rag" in weights:
        people["rag.users"] = recipe.rag.users
    for name, persona in people.items():
        if not recipe.open_loop and _takes_no_time(persona, recipe):
            raise InputError(
                f"{name} could ask without end at one time; give its think_s a lower limit above 0, or its generation"
                " and decode_token_ms."
            )


def _takes_no_time(persona: UserKind, recipe: Recipe) -> bool:
    token_ns = to_ns(recipe.decode_token_ms) // 1000
    return to_ns(persona.think_s[0]) == 0 and (token_ns == 0 or persona.generation[0] == 0)


def portable(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe without the folders of this machine."""
    name = Path(recipe.sharegpt.path).name
    return asdict(replace(recipe, sharegpt=replace(recipe.sharegpt, path=name)))
