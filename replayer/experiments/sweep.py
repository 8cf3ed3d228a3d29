"""Sweeps: TOML files of cases, each a trace and flags of `replayer run`; lists make a grid."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from replayer.experiments.series import SERIES_FILE, TRACES_FOLDER, Series, path_of_rank
from replayer.options.command_line import forwardable_options, option_words, parse_words
from replayer.run.figures import Agenda
from tracegen.errors import InputError, ToolError
from tracegen.schema import Trace
from tracegen.typed_files import Table, convert, load_toml, suggest

_SHIPPED: Final = Path(__file__).parents[1] / "sweeps"
_NAME: Final = re.compile(r"\w[\w.+=,-]*")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.+=,-]")


class _SweepFile(msgspec.Struct, frozen=True):
    """The keys of a sweep's file."""

    case: Annotated[list[Table], Meta(min_length=1)]
    trials: Annotated[int, Meta(ge=1, le=1000)] = 3
    pause_s: Annotated[float, Meta(ge=0, le=86_400)] = 0


class _CaseKeys(msgspec.Struct, frozen=True):
    """The keys of a [[case]] that are no flags of `replayer run`; `set` changes the recipe."""

    name: str
    recipe: str | None = None
    trace: str | None = None
    set: dict[str, bool | int | float | str | list[Any]] = {}


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
        given = parse_words(self.flags)
        if "duration" not in given:
            return None
        duration_s = float(given["duration"])
        # The default of --drain.
        drain_s = float(given.get("drain", duration_s / 10))
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
            # It only says what --case takes.
            del case["table"]
        return {"pause_s": self.pause_s, "cases": cases}


def list_sweeps() -> list[str]:
    """Return the names of the sweeps that ship."""
    return sorted(file.stem for file in _SHIPPED.glob("*.toml"))


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
    if grid not in list_sweeps():
        remedy = f"name a TOML file, or {suggest(grid, list_sweeps())}"
        raise InputError("no file or sweep has this name", remedy, subject=grid)
    return _SHIPPED / f"{grid}.toml"


def load_sweep(
    path: Path, trials: int | None = None, overrides: Sequence[str] = (), tables: Sequence[str] = ()
) -> Sweep:
    """Read a sweep from a file, and check all of it.

    Args:
        path: TOML with trials, pause_s and tables [[case]].
        trials: of each case; None: the file's, else 3.
        overrides: NAME=VALUE, flags of `replayer run` for every case.
        tables: names of the [[case]] to take; none: all.

    Raises:
        InputError: the file cannot be read, or a value is not valid.
    """
    remedy = "name a TOML file with a [[case]] for each recipe or trace, and flags of `replayer run`"
    file = convert(load_toml(path, remedy), _SweepFile, subject=path)
    flags = _parse_overrides(overrides)
    cases = [case for number, table in enumerate(file.case, 1) for case in _list_cases(path, number, table, flags)]
    repeated, times = Counter(case.name for case in cases).most_common(1)[0]
    if times > 1:
        raise InputError(f"two cases have the name {repeated}", "give each its own", subject=path)
    _check_keys(tables, [case.table for case in cases], None, "names")
    chosen = tuple(case for case in cases if not tables or case.table in tables)
    return Sweep(trials or file.trials, file.pause_s, chosen)


def run_sweep(sweep: Sweep, series: Series) -> None:
    """Make the traces, then replay all trials that are not complete.

    Args:
        sweep: its cases.
        series: makes the traces and replays.

    Raises:
        InputError: a case asks for more users than its trace has.
        ChildFailedError: tracegen or a replay failed.
    """
    try:
        traces = _make_traces(sweep.cases, series)
    except ToolError:
        # So that the mended sweep may begin in the same directory.
        series.abandon()
        raise
    order = sweep.order()
    series.agenda = Agenda([name for _, name in order])
    for case, name in order:
        series.replay(name, traces[case.name], case.flags, pause_s=sweep.pause_s)


def _parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE texts to values of flags by parameter name."""
    flags = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("has no value", "write NAME=VALUE", setting="overrides", subject=text)
        flags[name.replace("-", "_")] = value
    _check_keys(flags, forwardable_options(), None, "overrides")
    return flags


def _check_keys(keys: Iterable[str], known: Collection[str], subject: object, setting: str | None = None) -> None:
    """Refuse an unknown key, and name the known one that is most like it."""
    if unknown := next((key for key in keys if key not in known), None):
        raise InputError(f"{unknown} is unknown", suggest(unknown, known), subject=subject, setting=setting)


def _list_cases(path: Path, number: int, table: Table, overrides: dict[str, str]) -> Iterator[Case]:
    """Yield a case for each combination of the values that a [[case]] lists."""
    own = {key: table[key] for key in _CaseKeys.__struct_fields__ if key in table}
    label = f"{path}, case {own.setdefault('name', f'case_{number}')}"
    _check_keys(table, (*_CaseKeys.__struct_fields__, *forwardable_options()), label)
    case = _read_source(convert(own, _CaseKeys, label), path.resolve().parent, label)
    values = {key: value for key, value in table.items() if key not in own} | overrides
    listed = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    if empty := next((key for key, value in listed.items() if not value), None):
        raise InputError(f"{empty} = [] leaves nothing to replay", "list a value", subject=label)
    for combination in itertools.product(*listed.values()):
        flags = dict(zip(listed, combination, strict=True))
        varied = [f"{key}={flags[key]}" for key, value in listed.items() if len(value) > 1]
        yield replace(
            case,
            name="-".join([case.table, *(_NOT_IN_NAMES.sub("_", text) for text in varied)]),
            flags=_compose_flags(label, flags),
        )


def _read_source(keys: _CaseKeys, folder: Path, label: str) -> Case:
    """Return a case without flags: its name, and its trace or the recipe of one."""
    if not _NAME.fullmatch(keys.name) or keys.name in (TRACES_FOLDER, SERIES_FILE):
        rule = f"must consist of letters, digits and _.+=,-, and not be {TRACES_FOLDER} or {SERIES_FILE}"
        raise InputError(f"name = {keys.name!r} {rule}", subject=label)
    recipe, trace = _find_source(keys, folder, label)
    # As TOML writes them: true and false.
    words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in keys.set.items()}
    settings = tuple(f"{key}={word}" for key, word in words.items())
    return Case(keys.name, keys.name, recipe, trace, settings, ())


def _find_source(keys: _CaseKeys, folder: Path, label: str) -> tuple[str | None, Path | None]:
    """Return the recipe of a case, a file or the name of a shipped one, or its trace."""
    if (keys.recipe is None) == (keys.trace is None):
        raise InputError("the case must name either a recipe or a trace", subject=label)
    if keys.trace is not None and keys.set:
        raise InputError("set changes a recipe, and the case names a trace", "leave out set", subject=label)
    path = folder / (keys.recipe or keys.trace or "")
    first = path_of_rank(path, 0)
    if first.exists():
        return (None, path) if keys.recipe is None else (str(path), None)
    if keys.recipe and (resources.files("tracegen") / "recipes" / f"{keys.recipe}.toml").is_file():
        return keys.recipe, None
    remedy = "name paths relative to the sweep's file, or a recipe that `tracegen recipes` lists"
    raise InputError(f"{first} does not exist", remedy, subject=label)


def _compose_flags(label: str, flags: Mapping[str, object]) -> tuple[str, ...]:
    """Return a case's flags as words of a command line, known to be valid."""
    try:
        words = tuple(word for name, value in flags.items() for word in option_words(name, value))
        parse_words(words)
    except InputError as error:
        raise InputError(error.problem, error.remedy, subject=label, setting=error.setting) from None
    return words


def _make_traces(cases: Sequence[Case], series: Series) -> dict[str, Path]:
    """Return the trace of each case by its name; cases that differ in flags only share one."""
    made: dict[object, Path] = {}  # by recipe and settings
    names: list[str] = []
    traces = {}
    for case in cases:
        path = case.trace or made.get((case.recipe, case.settings))
        if path is None:
            candidates = (case.table, case.name, f"{case.name}_{len(names)}")
            names.append(next(name for name in candidates if name not in names))
            path = series.make_trace(names[-1], case.recipe, case.settings)
            made[case.recipe, case.settings] = path
        _check_users(case, path_of_rank(path, 0))
        traces[case.name] = path
    return traces


def _check_users(case: Case, trace: Path) -> None:
    """Refuse a case that asks for more users than its trace has."""
    users = parse_words(case.flags).get("users")
    most = Trace(trace).metadata.counts.get("users")
    if users and most and users > most:
        raise InputError(f"users = {users}, but {trace} has {most:,}", "ask for fewer", subject=f"case {case.name}")
