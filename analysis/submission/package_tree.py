"""Where things lie: the directory that a submission is made in, and MLPerf's tree of packages.

WORK/submission.json, system.yaml, environment.json; replays/option_N/trial_T, as `replayer sweep` leaves them
RESULTS/<closed|open>/<org>/submission.yaml
/systems/<system>.yaml
/results/<system>/manifest.json, environment.json, report.html
/results/<system>/kv_cache/<model>/run/<time>/summary.json
/option_N/log-trial_T.txt
/option_N/trial_T[/run.json]/rank_R/…
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from analysis.submission.rules import RULES, Rules
from replayer.schema import check_file
from tracegen.errors import InputError

SCHEMA: Final = "kv-tier-bench-submission/1"
DIVISIONS: Final = ("closed", "open")
MOST_BYTES: Final = {".json": 1 << 26, ".yaml": 1 << 18, "": 1 << 30}
"""Of a file by its suffix, or of any: nothing larger is read."""


@dataclass(frozen=True)
class About:
    """Whose submission it is, and of what kind."""

    organisation: str
    system: str
    division: str
    scale: str

    @property
    def rules(self) -> Rules:
        """Those of its scale."""
        return RULES[self.scale]

    def check(self) -> None:
        """Refuse what names no directory, or no rules.

        Raises:
            InputError: names the flag.
        """
        for flag, value in (("--org", self.organisation), ("--system", self.system)):
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", value, re.ASCII):
                raise InputError(f"{flag} {value!r} must be of letters, digits and _.-, as it names directories.")
        for flag, value, known in (("--division", self.division, DIVISIONS), ("--scale", self.scale, tuple(RULES))):
            if value not in known:
                raise InputError(f"{flag} {value!r} is none of {', '.join(known)}.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; readers disagree on which of two values of one name counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def read_json(path: Path) -> Any:
    """A JSON file.

    Raises:
        InputError: it is missing or none.
    """
    try:
        check_file(path, MOST_BYTES[".json"])
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; name what `analysis submission` made.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is no JSON ({error}); copy it anew.") from None


def about_of(path: Path) -> About:
    """What `submission.json` or a manifest says of its submission.

    Raises:
        InputError: it is missing, damaged, or of something else.
    """
    found = read_json(path)
    names = About.__dataclass_fields__
    if (
        not isinstance(found, dict)
        or found.get("schema") != SCHEMA
        or not all(type(found.get(n)) is str for n in names)
    ):
        raise InputError(f"{path} is none of {SCHEMA}; name what `analysis submission` made.")
    about = About(**{name: found[name] for name in names})
    about.check()
    return about


@dataclass(frozen=True)
class Package:
    """A package: one system of an organisation.

    Attributes:
        top: the organisation's directory.
        about: what its directories and its manifest say.
    """

    top: Path
    about: About

    @property
    def results(self) -> Path:
        """Everything that was measured."""
        return self.top / "results" / self.about.system

    @property
    def manifest(self) -> Path:
        """Of every file."""
        return self.results / "manifest.json"

    @property
    def description(self) -> Path:
        """Of the system."""
        return self.top / "systems" / f"{self.about.system}.yaml"

    @property
    def runs(self) -> list[Path]:
        """A directory per model, with its options."""
        return sorted(one for one in self.results.glob("kv_cache/*/run/*") if one.is_dir())

    @cached_property
    def options(self) -> dict[str, list[Path]]:
        """The trials of each option, in order."""
        found: dict[str, list[Path]] = {}
        for run in self.runs:
            for option in sorted(run.glob("option_*")):
                trials = (one for one in option.glob("trial_*") if one.is_dir())
                found.setdefault(option.name, []).extend(sorted(trials, key=number))
        return dict(sorted(found.items()))

    def irregular(self) -> Iterator[str]:
        """What no package holds: links, pipes and devices, and files of any size; nothing is opened."""
        above = [self.top / name for name in ("systems", "results", "submission.yaml")]
        paths = [*above, self.description, self.results, *sorted(self.results.rglob("*"))]
        for path in dict.fromkeys(one for one in paths if os.path.lexists(one)):
            name, found = path.relative_to(self.top).as_posix(), path.lstat()
            most = MOST_BYTES.get(path.suffix, MOST_BYTES[""])
            if stat.S_ISLNK(found.st_mode):
                yield f"{name} is a link; a package holds its files"
            elif not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                yield f"{name} is a pipe, a socket or a device; a package holds files"
            elif stat.S_ISREG(found.st_mode) and found.st_size > most:
                yield f"{name} has {found.st_size:,} bytes, more than any honest one ({most:,})"

    def files(self) -> Iterator[Path]:
        """Every file of it but the manifest; what lies beside them, too."""
        yield from (one for one in (self.top / "submission.yaml", self.description) if one.exists())
        yield from (
            one
            for one in sorted(self.results.rglob("*"))
            if (one.is_symlink() or not one.is_dir()) and one != self.manifest
        )


def model_folder(model: str) -> str:
    """A model's directory: a name that is a path stays within the package."""
    return re.sub(r"[^\w.-]", "-", model, flags=re.ASCII).lstrip(".") or "model"


def number(path: Path) -> int:
    """That a directory's name ends with."""
    digits = re.search(r"(\d{1,9})$", path.name, re.ASCII)
    return int(digits[1]) if digits else -1


def opened_as(trial: Path) -> Path:
    """What `analysis summary` opens of a trial: the directory above its ranks, or its only rank."""
    return trial if (trial / "run.json").exists() else trial / "rank_0"


def ranks_of(trial: Path) -> list[Path]:
    """The run directory of each rank."""
    return sorted((one for one in trial.glob("rank_*") if one.is_dir()), key=number)


def packages(place: Path) -> list[Package]:
    """The packages of an organisation's directory, or the one of a system's.

    Raises:
        InputError: there is none.
    """
    place = place.resolve()
    if (place / "manifest.json").exists():
        place, found = place.parent.parent, [place / "manifest.json"]
    else:
        found = sorted(place.glob("results/*/manifest.json"))
    if not found:
        raise InputError(f"{place} holds no package: no results/*/manifest.json; name RESULTS/<closed|open>/<org>.")
    return [Package(place, about_of(manifest)) for manifest in found]
