"""Recipe in, trace out: read the source, schedule its sessions, turn their requests into ops, write them."""

from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tracegen import sharegpt, tokens, workload
from tracegen.recipe import Recipe
from tracegen.schema import InputError, Metadata, TraceWriter


def generate(recipe: Recipe, output: Path, *, force: bool = False, quiet: bool = False) -> Metadata:
    """Write the trace of a recipe; the same recipe and input files give the same fingerprint on every machine.

    Raises:
        InputError: the recipe names no source, an input is unusable, or the output exists and `force` is false.
    """
    if not recipe.sharegpt.path:
        raise InputError("nothing to make a trace of; name a ShareGPT file with --sharegpt FILE.")
    metadata = Metadata(recipe.seed, _portable(recipe), f"kv-tier-bench {version('kv-tier-bench')}")
    with TraceWriter(output, metadata, force=force) as writer:
        source, tokenizer = Path(recipe.sharegpt.path), tokens.load(recipe.tokenizer)
        size = source.stat().st_size if source.is_file() else 0
        with tqdm(desc="tokenizing", total=size, unit="B", unit_scale=True, disable=quiet or None, leave=False) as bar:
            sessions = sharegpt.read(recipe, tokenizer, bar.update)
        metadata.tokenizer = {"name": tokenizer.name, "digest": tokenizer.digest}
        metadata.sources = [sessions.source]
        metadata.counts = sessions.counts
        requests = workload.schedule(recipe, sessions)
        if not len(requests.time_ns):
            raise InputError(f"no request arrives within duration_s = {recipe.duration_s}; give it more time.")
        for batch in workload.ops(recipe, requests):
            writer.write(batch)
    return metadata


def _portable(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe without the folders of this machine."""
    name = Path(recipe.sharegpt.path).name
    return asdict(replace(recipe, sharegpt=replace(recipe.sharegpt, path=name)))
