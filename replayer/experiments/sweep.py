"""Sweeps: a TOML file of cases, each a trace and flags of `replayer run`; lists of values make a grid."""

import difflib
import itertools
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import click

from replayer.experiments.replay_series import ASKED, TRACES, Series, of_rank, pause
from replayer.flags import forwarded_flags as passing
from tracegen.console.command_line import SECONDS
from tracegen.errors import InputError
from tracegen.schema import Trace

SHIPPED: Final = Path(__file__).parents[1] / "sweeps"
_OWN: Final = ("name", "recipe", "trace", "set")


@dataclass(frozen=True)
class Case:
    """What is replayed in several trials.

    Attributes:
        name: of its directory.
        table: the name of the [[case]] that it comes from.
        recipe: of the trace to make: a file, or the name of one that comes with the package; or
        trace: one that there is.
        settings: KEY=VALUE of the recipe, changed.
        flags: of `replayer run`, with their values.
    """

    name: str
    table: str
    recipe: str | None
    trace: Path | None
    settings: tuple[str, ...]
    flags: tuple[str, ...]

    def most_s(self) -> float | None:
        """How long a replay takes at most, by --duration and --drain among its flags; None where they do not say."""
        given = dict(itertools.pairwise(self.flags))
        duration, drain = (given.get(name) for name in ("--duration", "--drain"))
        if duration is None or "unlimited" in (duration, drain):
            return None
        asked = float(SECONDS.parse(duration))
        return asked + (asked / 10 if drain is None else float(SECONDS.parse(drain)))


@dataclass(frozen=True)
class Sweep:
    """Cases, in the order in which they are replayed.

    Attributes:
        trials: replays of each.
        pause_s: of rest before each but the first.
    """

    trials: int
    pause_s: float
    cases: tuple[Case, ...]


def find(grid: str) -> Path:
    """The file of a sweep.

    Args:
        grid: a TOML file, or the name of a sweep that comes with the package. A file wins over a name.

    Raises:
        InputError: there is neither.
    """
    path, known = Path(grid), {one.stem: one for one in sorted(SHIPPED.glob("*.toml"))}
    if path.suffix or path.exists():
        return path
    if grid not in known:
        raise InputError(f"{grid}: no file and no sweep has this name; name a TOML file or one of {', '.join(known)}.")
    return known[grid]


def load(path: Path, trials: int | None = None, overrides: Sequence[str] = ()) -> Sweep:
    """A sweep of a file.

    Args:
        path: TOML: trials, pause_s, and tables [[case]].
        trials: instead of the file's.
        overrides: FLAG=VALUE for every case.

    Raises:
        InputError: it cannot be read, or says something that cannot be done.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; name a TOML file of cases.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None
    _known(path, content, ("trials", "pause_s", "case"))
    trials = trials or content.get("trials", 3)
    pause_s, tables = content.get("pause_s", 0), content.get("case")
    if type(trials) is not int or not 1 <= trials <= 1000:
        raise InputError(f"{path}: trials = {trials!r} must be from 1 to 1,000.")
    if type(pause_s) not in (int, float) or not 0 <= pause_s <= 86400:
        raise InputError(f"{path}: pause_s = {pause_s!r} must be from 0 to 86,400 seconds.")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path} has no [[case]]; each names a recipe or a trace, and flags of replayer run.")
    given = dict(_override(text) for text in overrides)
    _known(Path("--flag"), given, tuple(passing.known()))
    cases = [case for number, table in enumerate(tables, 1) for case in _cases(path, number, table, given)]
    names = [case.name for case in cases]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: two cases are called {twice}; give each a name of its own.")
    return Sweep(trials, pause_s, tuple(cases))


def run(sweep: Sweep, series: Series) -> None:
    """Replay all trials; those that are complete are kept.

    Raises:
        InputError: a case asks for more users than its trace has.
        click.exceptions.Exit: tracegen or a replay failed, and has said why.
    """
    names = _trace_names(sweep.cases)
    try:
        traces = {case.name: _trace(case, names, series) for case in sweep.cases}
    except (InputError, click.exceptions.Exit):
        series.abandon()
        raise
    for case in sweep.cases:
        for trial in range(1, sweep.trials + 1):
            name = f"{case.name}/trial_{trial}"
            if trial == 1 and not (series.place / name).exists():
                pause(sweep.pause_s - series.rested_s(), case.name)
            series.replay(name, traces[case.name], case.flags)


def asked(sweep: Sweep) -> dict[str, Any]:
    """What the replays follow from; more trials may be asked for later."""
    cases = [{name: value for name, value in asdict(case).items() if name != "table"} for case in sweep.cases]
    return {"pause_s": sweep.pause_s, "cases": cases}


def _trace_names(cases: Sequence[Case]) -> dict[tuple[str | None, tuple[str, ...]], str]:
    """A file name for each recipe with its settings: cases that differ in flags alone share a trace."""
    names: dict[tuple[str | None, tuple[str, ...]], str] = {}
    for case in cases:
        made = (case.recipe, case.settings)
        if case.trace is None and made not in names:
            free = (one for one in (case.table, case.name, f"{case.name}_{len(names)}") if one not in names.values())
            names[made] = next(free)
    return names


def _trace(case: Case, names: dict[tuple[str | None, tuple[str, ...]], str], series: Series) -> Path:
    """The case's trace, which has the users that it asks for."""
    path = case.trace or series.trace(names[case.recipe, case.settings], case.recipe, case.settings)
    counts = Trace(of_rank(path, 0)).metadata.counts
    users, has = dict(itertools.pairwise(case.flags)).get("--users"), counts.get("users")
    if users and has and int(users) > has:
        raise InputError(f"case {case.name}: users = {users}, but {of_rank(path, 0)} has {has:,}; ask for fewer.")
    return path


def _cases(path: Path, number: int, table: dict[str, Any], given: dict[str, Any]) -> Iterator[Case]:
    """The cases of a table: one for each combination of what is listed."""
    name = table.get("name", f"case_{number}")
    where = f"{path}, case {name}"
    flags = passing.known()
    _known(Path(where), table, (*_OWN, *flags))
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+=,-]*", name) or name in (TRACES, ASKED):
        raise InputError(
            f"{where}: name = {name!r} must be of letters, digits and _.+=,-, and none of the sweep's own."
        )
    if ("recipe" in table) == ("trace" in table):
        raise InputError(f"{where} must name either a recipe or a trace.")
    folder = path.resolve().parent
    recipe = _recipe(where, folder, str(table["recipe"])) if "recipe" in table else None
    trace = folder / str(table["trace"]) if "trace" in table else None
    if trace is not None and not of_rank(trace, 0).exists():
        raise InputError(f"{where}: there is no {of_rank(trace, 0)}; paths are relative to the file.")
    changed = table.get("set", {})
    if not isinstance(changed, dict) or ("set" in table and trace is not None):
        raise InputError(f"{where}: set = {changed!r} must be a table of recipe keys, beside a recipe.")
    settings = tuple(f"{key}={_value(value)}" for key, value in changed.items())
    values = {key: value for key, value in table.items() if key not in _OWN} | given
    listed = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    if empty := next((key for key, value in listed.items() if not value), None):
        raise InputError(f"{where}: {empty} = [] leaves nothing to replay; name a value.")
    for chosen in itertools.product(*listed.values()):
        own = dict(zip(listed, chosen, strict=True))
        varied = [re.sub(r"[^\w.+=,-]", "_", f"{key}={value}") for key, value in own.items() if len(listed[key]) > 1]
        words = tuple(word for key, value in own.items() for word in _typed(where, flags[key], value))
        _check(where, words)
        yield Case("-".join([name, *varied]), name, recipe, trace, settings, words)


def _recipe(where: str, folder: Path, named: str) -> str:
    """The recipe as tracegen takes it: a file beside the sweep's, or the name of a shipped one."""
    file = folder / named
    if file.exists():
        return str(file)
    if file.suffix:
        raise InputError(f"{where}: there is no {file}; paths are relative to the file.")
    if not (resources.files("tracegen") / "recipes" / f"{named}.toml").is_file():
        raise InputError(f"{where}: {named} is neither a file beside it nor a name that `tracegen recipes` lists.")
    return named


def _known(where: Path, table: dict[str, Any], names: Sequence[str]) -> None:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}."
            raise InputError(f"{where}: {key} is not known; {hint}")


def _value(value: Any) -> str:
    """A value of a recipe, as --set takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--flag {text}: write it as NAME=VALUE.")
    return key.replace("-", "_"), value


def _typed(where: str, flag: click.Option, value: Any) -> list[str]:
    if flag.is_flag:
        switch = {True: True, False: False, "true": True, "false": False}.get(
            value if isinstance(value, bool | str) else ""
        )
        if switch is None:
            raise InputError(f"{where}: {flag.name} = {value!r} must be true or false.")
        return passing.typed(flag, switch)
    return passing.typed(flag, value)


def _check(where: str, flags: Sequence[str]) -> None:
    try:
        passing.check(flags)
    except click.ClickException as problem:
        raise InputError(f"{where}: {problem.format_message()}") from None
