"""Counting tokens: bundled mistral-common tokenizers, local directories and hub names behind one callable."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLError
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from tracegen.errors import InputError, missing_package

ALIASES: Final = {"tekken": "tekken_240911"}  # a name of a family means this one, for ever
HUB_TIMEOUT_S: Final = 5
_HUB_NAME: Final = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer as metadata sees it, and the function that counts the tokens of a batch of texts."""

    name: str
    digest: str
    count: Callable[[list[str]], list[int]]
    threads: int


def bundled() -> dict[str, Path]:
    """The tokenizer files that mistral-common ships, by name."""
    import mistral_common  # noqa: PLC0415 (heavy; only `generate` needs it)

    folder = Path(mistral_common.__file__).parent / "data"
    return {path.stem: path for path in sorted(folder.glob("tekken_*.json"))}


def load(name: str) -> Tokenizer:
    """A bundled name, a local directory or a hub name, in this order.

    Raises:
        InputError: nothing loads under that name.
    """
    files = bundled()
    resolved = ALIASES.get(name, name)
    return _load_tekken(resolved, files[resolved]) if resolved in files else _load_auto(name, sorted(files))


def _load_tekken(name: str, path: Path) -> Tokenizer:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # noqa: PLC0415

    # Tekkenizer.encode() renumbers every id in Python, under the lock, which doubles the time; the count is the same
    # (a test holds it to that). Below it is tiktoken, which encodes outside the lock.
    encode = Tekkenizer.from_file(path)._model.encode_ordinary

    def count(texts: list[str]) -> list[int]:
        return [len(encode(text)) for text in texts]

    return Tokenizer(name, hashlib.sha256(path.read_bytes()).hexdigest(), count, os.cpu_count() or 1)


def _load_auto(name: str, shipped: list[str]) -> Tokenizer:
    # Without PyTorch it says on being imported that there are no models; none is asked for.
    logging.getLogger("transformers").addFilter(lambda record: "PyTorch" not in record.getMessage())
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError:
        what = f"--tokenizer {name}, which is not bundled ({', '.join(shipped)}),"
        raise missing_package(what, "transformers", "hub") from None

    local = {"local_files_only": True, "trust_remote_code": False}  # a tokenizer that needs code of its own is refused
    try:
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(name, **local)
        except OSError:
            if Path(name).exists():
                raise
            _check_hub(name)
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"--tokenizer {name}: not bundled ({', '.join(shipped)}), and it does not load as a directory or hub name:"
            f" {reason}"
        ) from None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))

    def count(texts: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]

    # Fast tokenizers spread a batch over threads of their own.
    return Tokenizer(name, hashlib.sha256(content.encode()).hexdigest(), count, 1)


def _check_hub(name: str) -> None:
    """Ask the hub once: its own client asks for most of a minute.

    Raises:
        OSError: the name is none of the hub's, or the hub cannot be reached.
    """
    from huggingface_hub import constants  # noqa: PLC0415

    if not _HUB_NAME.fullmatch(name):
        raise FileNotFoundError("there is no such directory")
    try:
        with urlopen(f"{constants.ENDPOINT}/api/models/{name}", timeout=HUB_TIMEOUT_S):  # noqa: S310 (the hub's own)
            pass
    except HTTPError:
        pass  # it answers; what it says, its client says better
    except OSError as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, SSLError):  # its client brings certificates of its own
            raise ConnectionError(
                f"it is not in the hub's local cache, and the hub does not answer ({reason})"
            ) from None


def count_all(tokenizer: Tokenizer, batches: Iterable[tuple[Item, list[str]]]) -> Iterator[tuple[Item, list[int]]]:
    """Count batches of texts on the tokenizer's threads, in order, reading only a few batches ahead."""
    waiting: list[tuple[Item, Future[list[int]]]] = []
    with ThreadPoolExecutor(tokenizer.threads) as pool:
        for item, texts in batches:
            waiting.append((item, pool.submit(tokenizer.count, texts)))
            if len(waiting) > 2 * tokenizer.threads:
                first, future = waiting.pop(0)
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()
