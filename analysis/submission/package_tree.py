"""Paths of a submission: the directory that it is made in, and MLPerf's tree of packages.

WORK/submission.json, system.yaml, environment.json
/replays/option_N/trial_T, made by `replayer sweep`
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
"""Size limits of files by suffix; "" is that of all other files. Larger files are not read."""
_MADE_BY: Final = "name a file that `analysis submission` made"


@dataclass(frozen=True)
class Submission:
    """Names and kind of a submission, as submission.json and each manifest record them.

    Attributes:
        organisation: name of the organisation; a directory has this name.
        system: name of the system under test; directories have this name.
        division: one of DIVISIONS.
        scale: key of RULES.
    """

    organisation: str
    system: str
    division: str
    scale: str

    @property
    def rules(self) -> Rules:
        """The rules of its scale."""
        return RULES[self.scale]

    @property
    def is_closed(self) -> bool:
        """Whether the division is CLOSED, which fixes every condition."""
        return self.division == "closed"

    def check(self) -> None:
        """Refuse names that cannot be directories, unknown divisions and unknown scales.

        Raises:
            InputError: with the setting that is wrong.
        """
        names = {"organisation": self.organisation, "system": self.system}
        for setting, name in names.items():
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII):
                raise InputError(
                    "not a name for a directory",
                    "use at most 100 letters, digits and _.-, beginning with a letter or digit",
                    subject=repr(name),
                    setting=setting,
                )
        choices = {"division": (self.division, DIVISIONS), "scale": (self.scale, tuple(RULES))}
        for setting, (name, known) in choices.items():
            if name not in known:
                raise InputError(
                    f"unknown {setting}",
                    f"choose one of {', '.join(known)}",
                    subject=repr(name),
                    setting=setting,
                )


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; readers disagree on which of two values of one name counts."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("an object has two values of one name")
    return content


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: the file is missing, is too large or is not JSON.
    """
    try:
        check_file(path, MOST_BYTES[".json"])
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_refuse_duplicates)
    except OSError as error:
        raise InputError(str(error.strerror), _MADE_BY, subject=path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"damaged: not JSON ({error})", "copy it again", subject=path) from None


def read_submission(path: Path) -> Submission:
    """Read the submission that `submission.json` or a manifest names.

    Raises:
        InputError: the file is missing, damaged or of another format.
    """
    content = read_json(path)
    names = Submission.__dataclass_fields__
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"not a {SCHEMA} file", _MADE_BY, subject=path)
    if not all(type(content.get(name)) is str for name in names):
        raise InputError(f"not a {SCHEMA} file: it lacks a name", _MADE_BY, subject=path)
    submission = Submission(**{name: content[name] for name in names})
    submission.check()
    return submission


@dataclass(frozen=True)
class Package:
    """Package of one system of an organisation.

    Attributes:
        top: the organisation's directory.
        submission: the names that its directories and its manifest give.
    """

    top: Path
    submission: Submission

    @property
    def results(self) -> Path:
        """The directory of all results."""
        return self.top / "results" / self.submission.system

    @property
    def manifest(self) -> Path:
        """The list of all files, with sizes and digests."""
        return self.results / "manifest.json"

    @property
    def description(self) -> Path:
        """The description of the system."""
        return self.top / "systems" / f"{self.submission.system}.yaml"

    @property
    def runs(self) -> list[Path]:
        """The directory of each model; it holds the options."""
        return sorted(path for path in self.results.glob("kv_cache/*/run/*") if path.is_dir())

    @cached_property
    def options(self) -> dict[str, list[Path]]:
        """The trials of each option, in order."""
        options: dict[str, list[Path]] = {}
        for run in self.runs:
            for option in sorted(run.glob("option_*")):
                trials = (path for path in option.glob("trial_*") if path.is_dir())
                options.setdefault(option.name, []).extend(sorted(trials, key=parse_number))
        return dict(sorted(options.items()))

    def find_irregular(self) -> Iterator[str]:
        """Report links, pipes, devices and files that are too large; open none of them."""
        above = [self.top / name for name in ("systems", "results", "submission.yaml")]
        paths = [*above, self.description, self.results, *sorted(self.results.rglob("*"))]
        for path in dict.fromkeys(path for path in paths if os.path.lexists(path)):
            name = path.relative_to(self.top).as_posix()
            status = path.lstat()
            limit = MOST_BYTES.get(path.suffix, MOST_BYTES[""])
            if stat.S_ISLNK(status.st_mode):
                yield f"{name} is a link; a package contains the file itself"
            elif not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                yield f"{name} is a pipe, a socket or a device; a package contains regular files"
            elif stat.S_ISREG(status.st_mode) and status.st_size > limit:
                yield f"{name} has {status.st_size:,} bytes; the limit is {limit:,}"

    def list_files(self) -> Iterator[Path]:
        """List every file of the package except the manifest, also files that are not listed in it."""
        above = (self.top / "submission.yaml", self.description)
        yield from (path for path in above if path.exists())
        for path in sorted(self.results.rglob("*")):
            if (path.is_symlink() or not path.is_dir()) and path != self.manifest:
                yield path


def name_model_folder(model: str) -> str:
    """Return the name of a model's directory; a model that is a path stays within the package."""
    return re.sub(r"[^\w.-]", "-", model, flags=re.ASCII).lstrip(".") or "model"


def parse_number(path: Path) -> int:
    """Return the number at the end of a directory's name; -1 if there is none."""
    digits = re.search(r"(\d{1,9})$", path.name, re.ASCII)
    return int(digits[1]) if digits else -1


def find_run_directory(trial: Path) -> Path:
    """Return the run directory of a trial: the directory above its ranks, or its only rank."""
    return trial if (trial / "run.json").exists() else trial / "rank_0"


def list_ranks(trial: Path) -> list[Path]:
    """List the run directory of each rank of a trial."""
    return sorted((path for path in trial.glob("rank_*") if path.is_dir()), key=parse_number)


def find_packages(path: Path) -> list[Package]:
    """Find the packages in an organisation's directory, or the one in a system's directory.

    Raises:
        InputError: there is none.
    """
    path = path.resolve()
    if (path / "manifest.json").exists():
        top = path.parent.parent
        manifests = [path / "manifest.json"]
    else:
        top = path
        manifests = sorted(path.glob("results/*/manifest.json"))
    if not manifests:
        raise InputError(
            "no package: there is no results/*/manifest.json",
            "name RESULTS/<closed|open>/<org>",
            subject=path,
        )
    return [Package(top, read_submission(manifest)) for manifest in manifests]
