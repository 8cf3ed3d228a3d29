"""Names of systems: given, found in paths, or made of what differs."""

import string
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from analysis.cli import main
from analysis.log.targets import Targets
from analysis.report.systems import LONGEST, Subject, assign_labels, gather, name_groups, parse_label
from analysis.summary.summary import summarise
from tests.analysis.report.pages import altered
from tracegen.errors import InputError


def test_directories_that_say_nothing_are_replaced_by_what_differs(replay: Path, tmp_path: Path) -> None:
    few = altered(replay, tmp_path / "run1", workers=3)
    many = altered(replay, tmp_path / "run2", workers=12)
    assert [*gather([few, many], Targets()).trials] == ["workers 3", "workers 12"]


def test_the_fewest_facts_that_tell_all_systems_apart_are_named(replay: Path, tmp_path: Path) -> None:
    """No single condition tells the three apart: the first two share workers, the last two verify."""
    settings = [{"workers": 3, "verify": "full"}, {"workers": 3}, {"workers": 5}]
    runs = [altered(replay, tmp_path / f"run{n}", **own) for n, own in enumerate(settings)]
    names = [*gather(runs, Targets()).trials]
    assert names == ["workers 3, verify full", "workers 3, verify stamps", "workers 5, verify stamps"]


def test_configurations_under_one_label_are_told_apart(replay: Path, tmp_path: Path) -> None:
    runs = [altered(replay, tmp_path / f"run{n}", workers=n) for n in (3, 5)]
    found = gather(runs, Targets(), labels=[("old", str(tmp_path))])
    assert [*found.trials] == ["old, workers 3", "old, workers 5"]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("old", "--label old: not NAME=DIR; write --label old=runs/old."),
        ("=runs", "--label =runs: not NAME=DIR"),
        ("x=nowhere", "--label x=nowhere: no run of this report is there; name its runs as arguments, too."),
    ],
)
def test_wrong_labels_end_in_one_sentence(replay: Path, label: str, words: str) -> None:
    done = CliRunner().invoke(main, ["report", str(replay), "--label", label, "--format", "md"])
    assert done.exit_code == 2
    assert words in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_control_characters_of_directories_are_escaped(replay: Path, tmp_path: Path) -> None:
    """A renderer of SVG aborts on them, and a terminal obeys them."""
    strange = altered(replay, tmp_path / "evil\x1b[31m", workers=3)
    data = gather([replay, strange], Targets())
    assert [*data.trials] == [replay.name, r"evil\x1b[31m"]
    assert data.runs[1].name == r"evil\x1b[31m"
    assert parse_label("e\x1b[31m\nvil\uffff=there") == (r"e\x1b[31m vil\xffff", "there")


def test_a_run_has_one_label(replay: Path) -> None:
    with pytest.raises(InputError, match="is called old, too"):
        assign_labels([replay], [("old", str(replay)), ("new", str(replay.parent))])


TEXTS = st.text(string.ascii_letters + string.digits + "-=", min_size=1, max_size=60)


@given(names=st.lists(TEXTS, min_size=1, max_size=9, unique=True))
def test_names_are_unique_and_short(summary_of_replay: object, names: list[str]) -> None:
    """The number of an equal name may follow the characters of a name."""
    paths = (Path("series", name, "trial_1") for name in names)
    found = name_groups([[Subject(SimpleNamespace(path=path), summary_of_replay)] for path in paths])  # type: ignore[arg-type]
    assert len(set(found)) == len(names)
    assert all(len(name) <= LONGEST + len(" (9)") for name in found)
    assert not {*found} & {*"ABCDEFGH"} - {*names}


@pytest.fixture(scope="module")
def summary_of_replay(replay: Path) -> object:
    return summarise(replay)
