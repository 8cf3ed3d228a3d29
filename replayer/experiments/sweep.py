"""Sweeps: TOML files of cases, each a trace and flags of `replayer run`; lists make a grid."""

import difflib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, cast

from replayer.experiments.replay_series import SERIES_FILE, TRACES_FOLDER, Series, path_of_rank
from replayer.flags.forwarded_flags import flag_words, forwardable_flags, parse_flags
from replayer.live.agenda import Agenda
from tracegen.errors import InputError, ToolError
from tracegen.schema import Trace

_SHIPPED: Final = Path(__file__).parents[1] / "sweeps"
SCENARIOS: Final = _SHIPPED / "scenarios.toml"
"""Has words that `replayer scenarios` replaces, and is no sweep without that."""
_FILE_KEYS: Final = ("trials", "pause_s", "case")
_CASE_KEYS: Final = ("name", "recipe", "trace", "set")
_DEFAULT_TRIALS: Final = 3
_MAX_TRIALS: Final = 1000
_MAX_PAUSE_S: Final = 86_400
_NAME: Final = re.compile(r"\w[\w.+=,-]*")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.+=,-]")

TomlTable = dict[str, Any]
"""A table of a TOML file, not checked yet."""
_TraceKey = tuple[str | None, tuple[str, ...]]
"""What decides a trace that a sweep makes: the recipe, and its settings."""


@dataclass(frozen=True)
class Case:
    """One entry of a sweep, replayed in several trials.

    Attributes:
        name: of its directory.
        table: the name of the [[case]] that it comes from.
        recipe: of the trace to make: a file, or the name of a shipped one; None: `trace` exists.
        trace: to replay; None: it is made from `recipe`.
        settings: KEY=VALUE, keys of the recipe to change.
        flags: of `replayer run`, with their values.
    """

    name: str
    table: str
    recipe: str | None
    trace: Path | None
    settings: tuple[str, ...]
    flags: tuple[str, ...]

    def time_limit_s(self) -> float | None:
        """Return the most seconds that a replay takes by its flags; None: they set no limit."""
        flags = parse_flags(self.flags)
        if flags.duration is None:
            return None
        duration_s = float(flags.duration)
        drain_s = duration_s / 10 if flags.drain is None else float(flags.drain)
        limit_s = duration_s + drain_s
        return None if limit_s == float("inf") else limit_s


@dataclass(frozen=True)
class Sweep:
    """Cases, and how often each is replayed.

    Attributes:
        trials: of each case.
        pause_s: before each replay except the first.
        cases: at least one.
    """

    trials: int
    pause_s: float
    cases: tuple[Case, ...]

    def order(self) -> list[tuple[Case, str]]:
        """Return the replays in their order, each a case and its name, CASE/trial_N.

        Each round has one trial of every case, and every second round is reversed (A B B A A B): a
        machine that becomes steadily slower or faster changes the trials of all cases alike.
        """
        rounds = [(self.cases[:: 1 if trial % 2 else -1], trial) for trial in range(1, self.trials + 1)]
        return [(case, f"{case.name}/trial_{trial}") for cases, trial in rounds for case in cases]

    def settings(self) -> dict[str, object]:
        """Return what decides the replays, for series.json; trials do not: more may follow."""
        cases = [asdict(case) for case in self.cases]
        for case in cases:
            del case["table"]
        return {"pause_s": self.pause_s, "cases": cases}


def find_sweep(grid: str) -> Path:
    """Return the file of a sweep.

    Args:
        grid: a TOML file, or the name of a shipped sweep; a file comes first.

    Raises:
        InputError: neither exists.
    """
    path = Path(grid)
    is_folder = path.is_dir()  # results may be in a folder of the sweep's name
    if path.suffix or (path.exists() and not is_folder):
        return path
    shipped = {file.stem: file for file in sorted(_SHIPPED.glob("*.toml")) if file != SCENARIOS}
    if grid not in shipped:
        names = ", ".join(shipped)
        raise InputError("no file or sweep has this name", f"name a TOML file or one of {names}", subject=grid)
    return shipped[grid]


def load_sweep(path: Path, trials: int | None = None, overrides: Sequence[str] = ()) -> Sweep:
    """Read a sweep from a file, and check all of it.

    Args:
        path: TOML with trials, pause_s and tables [[case]].
        trials: of each case; None: the file's, else 3.
        overrides: NAME=VALUE, flags of `replayer run` for every case.

    Raises:
        InputError: the file cannot be read, or a value is not valid.
    """
    return parse_sweep(path, _read_toml(path), trials, overrides)


def parse_sweep(path: Path, content: TomlTable, trials: int | None = None, overrides: Sequence[str] = ()) -> Sweep:
    """Check the content of a sweep's file; the arguments are those of `load_sweep`.

    Raises:
        InputError: a value is not valid.
    """
    _check_keys(path, content, _FILE_KEYS)
    trials = _check_trials(path, trials or content.get("trials", _DEFAULT_TRIALS))
    pause_s = _check_pause(path, content.get("pause_s", 0))
    flags = _parse_overrides(overrides)
    tables = [_parse_table(path, *numbered) for numbered in enumerate(_find_tables(path, content), 1)]
    cases = [case for table in tables for case in _expand(table, flags)]
    names = [case.name for case in cases]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two cases have the name {repeated}", "give each its own", subject=path)
    return Sweep(trials, pause_s, tuple(cases))


def _check_trials(path: Path, trials: Any) -> int:
    if type(trials) is not int or not 1 <= trials <= _MAX_TRIALS:
        raise InputError(f"trials = {trials!r} must be from 1 to {_MAX_TRIALS:,}", subject=path)
    return trials


def _check_pause(path: Path, pause_s: Any) -> float:
    if type(pause_s) not in (int, float) or not 0 <= pause_s <= _MAX_PAUSE_S:
        rule = f"must be from 0 to {_MAX_PAUSE_S:,} seconds"
        raise InputError(f"pause_s = {pause_s!r} {rule}", subject=path)
    return cast("float", pause_s)


def _find_tables(path: Path, content: TomlTable) -> list[TomlTable]:
    """Return the tables [[case]] of a file."""
    tables = content.get("case")
    is_list = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
    if not tables or not is_list:
        remedy = "name a recipe or a trace in each, and flags of `replayer run`"
        raise InputError("the file has no [[case]]", remedy, subject=path)
    return cast("list[TomlTable]", tables)


def run_sweep(sweep: Sweep, series: Series) -> None:
    """Make the traces, then replay all trials that are not complete.

    Raises:
        InputError: a case asks for more users than its trace has.
        ChildFailedError: tracegen or a replay failed.
    """
    traces = make_traces(sweep.cases, series)
    order = sweep.order()
    series.agenda = Agenda([name for _, name in order])
    for case, name in order:
        series.replay(name, traces[case.name], case.flags, pause_s=sweep.pause_s)


def make_traces(cases: Sequence[Case], series: Series) -> dict[str, Path]:
    """Make the traces that do not exist; return that of each case.

    Raises:
        InputError: a case asks for more users than its trace has.
        ChildFailedError: tracegen failed.
    """
    names = _name_traces(cases)
    try:
        return {case.name: _find_trace(case, names, series) for case in cases}
    except ToolError:
        series.abandon()
        raise


def _read_toml(path: Path) -> TomlTable:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(error.strerror), "name a TOML file of cases", subject=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", subject=path) from None


def _parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE texts to values of flags by parameter name."""
    flags = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("has no value", "write NAME=VALUE", setting="overrides", subject=text)
        flags[name.replace("-", "_")] = value
    _check_keys(None, flags, forwardable_flags(), setting="overrides")
    return flags


@dataclass(frozen=True)
class _Table:
    """A [[case]] of a sweep file, checked.

    Attributes:
        label: the file and the case, for messages.
        flags: values and lists of values by flag, as the file has them.
    """

    label: str
    name: str
    recipe: str | None
    trace: Path | None
    settings: tuple[str, ...]
    flags: TomlTable


def _parse_table(path: Path, number: int, table: TomlTable) -> _Table:
    """Check a [[case]] of a file, and find its trace or recipe."""
    name = table.get("name", f"case_{number}")
    label = f"{path}, case {name}"
    _check_keys(label, table, (*_CASE_KEYS, *forwardable_flags()))
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (TRACES_FOLDER, SERIES_FILE):
        reserved = f"{TRACES_FOLDER} or {SERIES_FILE}"
        rule = f"must consist of letters, digits and _.+=,-, and not be {reserved}"
        raise InputError(f"name = {name!r} {rule}", subject=label)
    if ("recipe" in table) == ("trace" in table):
        raise InputError("the case must name either a recipe or a trace", subject=label)
    folder = path.resolve().parent
    trace = _find_file(label, folder / str(table["trace"])) if "trace" in table else None
    return _Table(
        label=label,
        name=name,
        recipe=_find_recipe(label, folder, str(table["recipe"])) if "recipe" in table else None,
        trace=trace,
        settings=_parse_settings(label, table, has_recipe=trace is None),
        flags={key: value for key, value in table.items() if key not in _CASE_KEYS},
    )


def _find_file(label: str, path: Path) -> Path:
    """Return the path if it exists; if it is one of several ranks, rank 0's must."""
    first = path_of_rank(path, 0)
    if not first.exists():
        raise InputError(f"{first} does not exist", "name paths relative to the sweep's file", subject=label)
    return path


def _find_recipe(label: str, folder: Path, name: str) -> str:
    """Return a recipe as tracegen takes it: a file, or the name of a shipped recipe."""
    file = folder / name
    if file.exists() or file.suffix:
        return str(_find_file(label, file))
    if not (resources.files("tracegen") / "recipes" / f"{name}.toml").is_file():
        problem = f"no recipe is called {name}"
        raise InputError(problem, "name a file, or a recipe that `tracegen recipes` lists", subject=label)
    return name


def _parse_settings(label: str, table: TomlTable, *, has_recipe: bool) -> tuple[str, ...]:
    """Return the table `set` as `tracegen generate --set` takes it."""
    settings = table.get("set", {})
    if not isinstance(settings, dict):
        raise InputError(f"set = {settings!r} must be a table of recipe keys", subject=label)
    if "set" in table and not has_recipe:
        raise InputError("set changes a recipe, and the case names a trace", "leave out set", subject=label)
    words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in settings.items()}
    return tuple(f"{key}={word}" for key, word in words.items())


def _expand(table: _Table, overrides: dict[str, str]) -> Iterator[Case]:
    """Yield a case for each combination of a table's listed values."""
    values = table.flags | overrides
    listed = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    if empty := next((key for key, value in listed.items() if not value), None):
        raise InputError(f"{empty} = [] leaves nothing to replay", "list a value", subject=table.label)
    varied = [key for key, value in listed.items() if len(value) > 1]
    for combination in itertools.product(*listed.values()):
        flags = dict(zip(listed, combination, strict=True))
        yield Case(
            name="-".join([table.name, *(_name_value(key, flags[key]) for key in varied)]),
            table=table.name,
            recipe=table.recipe,
            trace=table.trace,
            settings=table.settings,
            flags=_parse_case_flags(table.label, flags),
        )


def _name_value(key: str, value: object) -> str:
    """Return KEY=VALUE as a part of a case's name."""
    return _NOT_IN_NAMES.sub("_", f"{key}={value}")


def _parse_case_flags(label: str, flags: Mapping[str, object]) -> tuple[str, ...]:
    """Return a case's flags as words of a command line, known to be valid."""
    try:
        words = tuple(word for name, value in flags.items() for word in flag_words(name, value))
        parse_flags(words)
    except InputError as error:
        raise InputError(error.problem, error.remedy, subject=label, setting=error.setting) from None
    return words


def _name_traces(cases: Sequence[Case]) -> dict[_TraceKey, str]:
    """Name the trace of each recipe with its settings; cases that differ in flags only share it."""
    names: dict[_TraceKey, str] = {}
    for case in cases:
        key = (case.recipe, case.settings)
        if case.trace is None and key not in names:
            candidates = (case.table, case.name, f"{case.name}_{len(names)}")
            names[key] = next(name for name in candidates if name not in names.values())
    return names


def _find_trace(case: Case, names: dict[_TraceKey, str], series: Series) -> Path:
    """Return the case's trace, made if necessary, which has the users that the case asks for."""
    path = case.trace
    if path is None:
        path = series.make_trace(names[case.recipe, case.settings], case.recipe, case.settings)
    first = path_of_rank(path, 0)
    users = parse_flags(case.flags).plan.get("users")
    most = Trace(first).metadata.counts.get("users")
    if users and most and users > most:
        raise InputError(f"users = {users}, but {first} has {most:,}", "ask for fewer", subject=f"case {case.name}")
    return path


def _check_keys(
    subject: object, table: Mapping[str, object], known: Sequence[str], *, setting: str | None = None
) -> None:
    """Refuse a table with an unknown key, and name the known one that is most like it."""
    for key in table:
        if key not in known:
            similar = difflib.get_close_matches(key, known, n=1)
            remedy = f"did you mean {similar[0]}?" if similar else f"name one of {', '.join(known)}"
            raise InputError(f"{key} is not known", remedy, subject=subject, setting=setting)
