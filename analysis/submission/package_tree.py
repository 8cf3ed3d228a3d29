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

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from analysis.submission.rules import RULES, Rules
from replayer.schema import check_file
from tracegen.errors import InputError

SCHEMA: Final = "kv-tier-bench-submission/1"
MOST_BYTES: Final = 1 << 30  # of any file: larger ones are no part of a submission
_Read = TypeVar("_Read")


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Names and kind of a submission.

    Attributes:
        organisation: name of the organisation; a directory has this name.
        system: name of the system under test; directories have this name.
        division: closed or open.
        scale: key of RULES.
        schema: version of the format.
    """

    organisation: str
    system: str
    division: Literal["closed", "open"]
    scale: str
    schema: Literal["kv-tier-bench-submission/1"] = SCHEMA

    @property
    def rules(self) -> Rules:
        """The rules of its scale."""
        return RULES[self.scale]

    @property
    def is_closed(self) -> bool:
        """Whether the division is CLOSED, which fixes every condition."""
        return self.division == "closed"

    @property
    def names(self) -> dict[str, Any]:
        """Its names and kind, without what a file adds to them."""
        return {name: getattr(self, name) for name in Submission.__struct_fields__}

    def check(self) -> None:
        """Refuse names that cannot be directories, and unknown scales.

        Raises:
            InputError: with the setting that is wrong.
        """
        for setting, name in (("organisation", self.organisation), ("system", self.system)):
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII):
                remedy = "use at most 100 letters, digits and _.-, beginning with a letter or digit"
                raise InputError("not a name for a directory", remedy, subject=repr(name), setting=setting)
        if self.scale not in RULES:
            remedy = f"choose one of {', '.join(RULES)}"
            raise InputError("unknown scale", remedy, subject=repr(self.scale), setting="scale")


class Begun(Submission, frozen=True, kw_only=True):
    """The content of submission.json.

    Attributes:
        trials: number of trials of each option.
    """

    trials: int


class Digest(msgspec.Struct, frozen=True):
    """Size (bytes) and SHA-256 of a file."""

    bytes: int
    sha256: str


class Manifest(Submission, frozen=True, kw_only=True):
    """The content of manifest.json.

    Attributes:
        files: every other file of the package, by its path below the organisation's directory.
    """

    files: dict[str, Digest]


def read_json(path: Path, kind: type[_Read] | Any = Any) -> _Read:
    """Read a JSON file of some type.

    Raises:
        InputError: the file is missing, not JSON, or of another type.
    """
    try:
        check_file(path, MOST_BYTES)
        read: _Read = msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        remedy = "name a file that `analysis submission` made"
        raise InputError(str(error.strerror), remedy, subject=path) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"not a file of {SCHEMA} ({error})", "copy it again", subject=path) from None
    return read


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
        for option in sorted(option for run in self.runs for option in run.glob("option_*")):
            trials = (path for path in option.glob("trial_*") if path.is_dir())
            options.setdefault(option.name, []).extend(sorted(trials, key=parse_number))
        return dict(sorted(options.items()))

    def list_files(self) -> Iterator[Path]:
        """List all in the package except folders and the manifest, also what that does not list."""
        above = (self.top / "submission.yaml", self.description)
        yield from (path for path in above if path.exists())
        for path in sorted(self.results.rglob("*")):
            if (path.is_symlink() or not path.is_dir()) and path != self.manifest:
                yield path

    def find_irregular(self) -> Iterator[str]:
        """Report links, pipes and devices; open none of them."""
        for path in self.list_files():
            if path.is_symlink() or not path.is_file():
                name = path.relative_to(self.top).as_posix()
                yield f"{name} is not a regular file; a package contains the file itself"


def flatten_tree(tree: Any, place: str = "") -> dict[str, Any]:
    """Return the values of a tree of JSON or YAML by their dotted names."""
    if isinstance(tree, dict | list) and tree:  # an empty one is a value
        inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
        parts = [flatten_tree(part, f"{place}.{name}".lstrip(".")) for name, part in inner]
        return {name: value for part in parts for name, value in part.items()}
    return {place: tree}


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
        top, manifests = path.parent.parent, [path / "manifest.json"]
    else:
        top, manifests = path, sorted(path.glob("results/*/manifest.json"))
    if not manifests:
        problem = "not a package: results/*/manifest.json is missing"
        raise InputError(problem, "name RESULTS/<closed|open>/<org>", subject=path)
    packages = []
    for manifest in manifests:
        submission: Submission = read_json(manifest, Submission)
        submission.check()
        packages.append(Package(top, submission))
    return packages
