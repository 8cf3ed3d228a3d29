"""Tokenizers that count: bundled with mistral-common, in a local directory, or in the hub's local cache."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tracegen.errors import InputError, missing_package

ALIASES: Final = {"tekken": "tekken_240911"}  # a family's name means this tokenizer, for ever
Item = TypeVar("Item")


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer."""

    name: str  # for a trace's metadata
    digest: str  # sha256 of what it was loaded from
    count: Callable[[list[str]], list[int]]  # returns the tokens of each text of a batch
    threads: int  # number of threads that may count at once


def list_bundled() -> dict[str, Path]:
    """Return the tokenizer files that mistral-common ships, by name."""
    import mistral_common  # noqa: PLC0415 (heavy; only `generate` needs it)

    folder = Path(mistral_common.__file__).parent / "data"
    return {path.stem: path for path in sorted(folder.glob("tekken_*.json"))}


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer by a bundled name, a local directory or a hub name that was downloaded, tried in this order.

    Raises:
        InputError: no tokenizer loads under that name.
    """
    files = list_bundled()
    resolved = ALIASES.get(name, name)
    if resolved in files:
        return _load_tekken(resolved, files[resolved])
    return _load_auto(name, sorted(files))


def _load_tekken(name: str, path: Path) -> Tokenizer:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # noqa: PLC0415

    # Tekkenizer.encode() renumbers every id in Python, holding the GIL, which doubles the time and
    # leaves the count as it is (a test compares them). tiktoken below it encodes without the GIL.
    encode = Tekkenizer.from_file(path)._model.encode_ordinary

    def count(texts: list[str]) -> list[int]:
        return [len(encode(text)) for text in texts]

    return Tokenizer(name, hashlib.sha256(path.read_bytes()).hexdigest(), count, os.cpu_count() or 1)


def _load_auto(name: str, bundled: list[str]) -> Tokenizer:
    """Load a tokenizer with transformers, from a local directory or the hub's cache; never with code of its own."""
    # transformers says on import that it has no models without PyTorch; a tokenizer needs none.
    logging.getLogger("transformers").addFilter(lambda record: "PyTorch" not in record.getMessage())
    names = ", ".join(bundled)
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError:
        feature = f"`tokenizer` {name}, which is not bundled ({names}),"
        raise missing_package(feature, "transformers", "hub") from None
    try:
        # No network: a trace must not depend on what a name means today.
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"not bundled, and it does not load as a directory or from the hub's cache: {reason}",
            f"name a directory or one of {names}, or run `hf download {name}` first",
            subject=name,
            setting="tokenizer",
        ) from None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = repr(sorted(tokenizer.get_vocab().items())) if backend is None else backend.to_str()

    def count(texts: list[str]) -> list[int]:
        encoded = tokenizer(texts, add_special_tokens=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    # Fast tokenizers spread a batch over threads of their own.
    return Tokenizer(name, hashlib.sha256(content.encode()).hexdigest(), count, 1)


def count_batches(tokenizer: Tokenizer, batches: Iterable[tuple[Item, list[str]]]) -> Iterator[tuple[Item, list[int]]]:
    """Yield (item, tokens of each text) of batches in order, counted on threads, a few batches ahead."""
    waiting: list[tuple[Item, Future[list[int]]]] = []
    with ThreadPoolExecutor(tokenizer.threads) as pool:
        for item, texts in batches:
            waiting.append((item, pool.submit(tokenizer.count, texts)))
            if len(waiting) > 2 * tokenizer.threads:
                first, future = waiting.pop(0)
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()
