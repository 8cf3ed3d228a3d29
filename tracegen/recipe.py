"""Recipes: what a trace is made of. TOML → frozen dataclasses, checked once; every default stands here."""

import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from tracegen.schema import InputError


@dataclass(frozen=True)
class ShareGPT:
    """Conversations of a file in ShareGPT's format, sampled by seed."""

    path: str = ""
    licence: str = "not stated"  # of the file; travels in the trace's metadata
    max_conversations: int = 0  # 0: all
    max_context_tokens: int = 0  # clamps a turn's prompt; 0: no limit
    max_generation_tokens: int = 0  # clamps a turn's answer; 0: no limit
    glue: bool = True  # join the segments that long conversations were split into


@dataclass(frozen=True)
class Prefix:
    """Shared prompts: `share` of the sessions carry one, drawn by rank (Zipf, exponent 1) from `tokens`."""

    share: float = 0.2
    tokens: tuple[int, ...] = (800, 1200, 2000)


@dataclass(frozen=True)
class Qos:
    """Relative weights of the classes, drawn once per session."""

    interactive: int = 15
    responsive: int = 35
    batch: int = 50


@dataclass(frozen=True)
class Replay:
    """Defaults that a replay of this trace takes where its flags say nothing."""

    model: str = "llama3.1-8b"
    gpu_mem_gb: float = 0
    cpu_mem_gb: float = 0
    storage_capacity_gb: float | None = None  # none: unlimited


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a trace, but for the content of its input files."""

    seed: int = 0
    tokenizer: str = "tekken"
    users: int = 50
    session_rate: float = 0  # new sessions per second (Poisson); 0: a user begins the next when the last has ended
    think_s: tuple[float, float] = (0.5, 5.0)  # uniform pause before each of a user's requests
    duration_s: float = 0  # requests arrive before this time; 0: no limit
    requests: int = 0  # the first N requests by arrival; 0: all
    history: Literal["all", "previous"] = "all"
    decode_batch: int = 32  # tokens generated per decode read
    decode_token_ms: float = 30  # nominal pace, for the trace's times
    decode_max_context: int = 0  # no decode ops for turns of more context tokens; 0: no limit
    qos: Qos = field(default_factory=Qos)
    prefix: Prefix = field(default_factory=Prefix)
    sharegpt: ShareGPT = field(default_factory=ShareGPT)
    replay: Replay = field(default_factory=Replay)

    def check(self) -> None:
        """Refuse values that make no trace.

        Raises:
            InputError: names the first such key, its value and what it must be.
        """
        weights = list(asdict(self.qos).values())
        demands = [
            ("seed", 0 <= self.seed < 2**64, "from 0 to 2^64 - 1"),
            ("users", 1 <= self.users < 2**31, "from 1 to 2^31 - 1"),
            ("session_rate", 0 <= self.session_rate <= 1e9, "from 0 to 1e9 sessions per second"),
            ("think_s", 0 <= self.think_s[0] <= self.think_s[1] <= 1e6, "[low, high] with 0 <= low <= high <= 1e6"),
            ("duration_s", 0 <= self.duration_s <= 1e9, "from 0 to 1e9 seconds"),
            ("requests", 0 <= self.requests < 2**31, "from 0 to 2^31 - 1"),
            ("decode_batch", 1 <= self.decode_batch < 2**31, "from 1 to 2^31 - 1"),
            ("decode_token_ms", 0 <= self.decode_token_ms <= 1e6, "from 0 to 1e6"),
            ("decode_max_context", 0 <= self.decode_max_context < 2**31, "from 0 to 2^31 - 1"),
            ("prefix.share", 0 <= self.prefix.share <= 1, "from 0 to 1"),
            ("prefix.tokens", all(0 < n < 2**31 for n in self.prefix.tokens), "token counts from 1 to 2^31 - 1"),
            ("prefix.tokens", bool(self.prefix.tokens) or self.prefix.share == 0, "given where prefix.share is not 0"),
            ("qos", sum(weights) > 0 and all(0 <= n < 2**31 for n in weights), "weights below 2^31, not all of them 0"),
            *(
                (f"sharegpt.{name}", 0 <= getattr(self.sharegpt, name) < 2**31, "from 0 to 2^31 - 1")
                for name in ("max_conversations", "max_context_tokens", "max_generation_tokens")
            ),
            *(
                (f"replay.{name}", 0 <= (getattr(self.replay, name) or 0) < 2**33, "0 GiB or more")
                for name in ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb")
            ),
        ]
        for name, holds, demand in demands:
            if not holds:
                value: Any = self
                for part in name.split("."):
                    value = getattr(value, part)
                raise InputError(f"recipe key {name} = {value!r} must be {demand}.")


def load(path: Path | None, settings: Mapping[str, Any]) -> Recipe:
    """Read a recipe and put flags over it.

    Args:
        path: a TOML file, or None for the defaults; its relative paths are taken from its own folder.
        settings: dotted keys and values that override the file.

    Raises:
        InputError: the file is missing or not TOML, or a key or value does not fit.
    """
    table: dict[str, Any] = {}
    if path is not None:
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path}: cannot read the recipe ({error.strerror}); name an existing TOML file."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not TOML ({error}); mend that line.") from None
    recipe: Recipe = _build(Recipe, table, str(path))
    if recipe.sharegpt.path and path is not None:
        recipe = replace(recipe, sharegpt=replace(recipe.sharegpt, path=str(path.parent / recipe.sharegpt.path)))
    for dotted, value in settings.items():
        *groups, name = dotted.split(".")
        nested: Any = {name: value}
        for group in reversed(groups):
            nested = {group: nested}
        recipe = _build(Recipe, nested, "--set", base=recipe)
    recipe.check()
    return recipe


def parse_value(text: str) -> Any:
    """The value of `--set key=value`: TOML where it parses, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def to_ns(seconds: float) -> int:
    """Seconds, as written in decimal, to whole nanoseconds."""
    return int((Decimal(str(seconds)) * 10**9).to_integral_value())


def _build(kind: Any, table: Mapping[str, Any], where: str, base: Any = None, prefix: str = "") -> Any:
    """A dataclass from a TOML table; unknown keys are refused with the nearest known one."""
    hints, values = typing.get_type_hints(kind), {}
    known = {item.name: item for item in fields(kind)}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(known)}."
            raise InputError(f"{where}: unknown recipe key {prefix}{name}; {hint}")
        current = getattr(base, name) if base is not None else None
        values[name] = _convert(hints[name], value, where, prefix + name, current)
    return replace(base, **values) if base is not None else kind(**values)


def _convert(hint: Any, value: Any, where: str, name: str, current: Any) -> Any:
    if is_dataclass(hint):
        if isinstance(value, Mapping):
            return _build(hint, value, where, current, f"{name}.")
        raise InputError(f"{where}: recipe key {name} is a table; set {name}.KEY.")
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal and value in options:
        return value
    if origin is tuple and isinstance(value, list):
        kinds = options[:1] * len(value) if options[-1] is Ellipsis else options
        if len(kinds) == len(value):
            return tuple(_convert(kind, item, where, name, None) for kind, item in zip(kinds, value, strict=True))
    for kind in options if origin is types.UnionType else (hint,):
        if (
            kind is float
            and isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) < float("inf")
        ):
            return value
        if type(value) is kind:
            return value
    expected = " or ".join(map(repr, options)) if origin is Literal else str(getattr(hint, "__name__", hint))
    raise InputError(f"{where}: recipe key {name} = {value!r} must be {expected}.")
