"""Options: groups of `--help`, `--set` and `--config`, suggestions, completion, and words for other processes."""

from decimal import Decimal
from pathlib import Path

import click
import pytest

import analysis.cli
import replayer
import replayer.cli
import tracegen.cli
from replayer.options.command_line import (
    Setting,
    forwardable_options,
    option_words,
    parse_words,
)
from replayer.options.groups import GROUPS, make_options
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.options.types import list_options
from tests.support import traces
from tests.support.command_line import here, sentence
from tracegen.console.commands import Command
from tracegen.errors import InputError
from tracegen.schema import Trace

MOST = 40
"""Options of one command, as its help shows them."""
MODEL = ("--model", "tiny-1b")


def list_commands(group: click.Group) -> list[click.Command]:
    commands = group.commands.values()
    return [one for each in commands for one in (list_commands(each) if isinstance(each, click.Group) else [each])]


COMMANDS = [one for cli in (tracegen.cli, replayer.cli, analysis.cli) for one in list_commands(cli.main)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    steps = [(op, key, 64) for key in range(8) for op in ("w", "r")]
    return traces.write(tmp_path_factory.mktemp("options") / "t.parquet", traces.columns(steps))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_help_of_a_command_fits_a_head(command: click.Command) -> None:
    """At most 40 options; those of a long list stand in groups, each with an example."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert len(options) <= MOST
    assert isinstance(command, Command)
    ungrouped = [one.name for one in options if not hasattr(one, "group")]
    assert len(ungrouped) <= 9, ungrouped
    assert (command.epilog or "").startswith("Example: ")


def test_an_option_has_one_declaration() -> None:
    names = [name for group in GROUPS.values() for name in list_options(group)]
    assert len(names) == len(set(names))
    flags = {param.name for param in replayer.cli.main.commands["run"].params if isinstance(param, Setting)}
    assert set(names) <= flags


def test_set_help_explains_the_options_that_are_no_flags() -> None:
    """Of a command that has an argument, without it; each with what it takes."""
    run = replayer.cli.main.commands["run"]
    rare = [param for param in run.params if isinstance(param, Setting) and param.rare]
    shown = here("replayer", "run", "--set", "help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split("=")[0] for line in shown.stdout.splitlines() if line[0] != " "] == [one.name for one in rare]


def test_a_flag_comes_first_then_set_then_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('cpu_mem_gb = 0.25\nheadroom = "50%"\npromote = true\nthrottle = ["cpu=9", "nvme=8"]\n')
    by_file = parse_words(["--config", str(file)])
    assert (by_file["cpu_mem_gb"], by_file["headroom"], by_file["promote"]) == (Decimal("0.25"), Decimal("0.5"), True)
    assert [tier for tier, _ in by_file["throttle"]] == ["cpu", "nvme"]
    words = ["--set", "headroom=90%", "--config", str(file), "--cpu-mem-gb", "0.5", "--set", "cpu-mem-gb=9"]
    assert parse_words(words) == by_file | {"cpu_mem_gb": Decimal("0.5"), "headroom": Decimal("0.9")}


REFUSED = {
    "an unknown key": (("--set", "headrom=1"), "--set: headrom is not an option of plan; did you mean headroom?"),
    "no value": (("--set", "headroom"), "--set headroom: has no value; write KEY=VALUE."),
    "a rare flag": (("--headroom", "1"), "Did you mean '--set headroom'?"),
    "an unknown flag": (("--cpu-mem", "1"), "Did you mean"),
    "a wrong value": (("--set", "ttl=soon"), "'--set ttl': 'soon' is not a number of seconds"),
    "an unknown word": (("--pace", "cloesd"), "Did you mean closed?"),
    "an unknown model": (("--model", "llama3.1-8"), "did you mean llama3.1-8b?"),
    "an unknown reference": (("--order", "reference:nvme-9"), "did you mean nvme-"),
    "no file": (("--config", "none.toml"), "--config none.toml: cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_an_option_is_refused_with_what_may_be_meant(trace: Trace, case: str) -> None:
    flags, words = REFUSED[case]
    sentence(here("replayer", "plan", trace.path, *MODEL, *flags), words)


def test_a_file_of_options_is_refused_with_its_wrong_key(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("cpu_mem = 4\n")
    sentence(here("replayer", "plan", trace.path, "--config", file), f"{file}: cpu_mem is not", "did you mean")


def test_words_of_options_are_read_back() -> None:
    """As a series passes them to its replays."""
    values = {"cpu_mem_gb": "0.5", "headroom": "90%", "clean": "true", "throttle": ["nvme=470", "cpu=1G"], "users": 3}
    words = [word for name, value in values.items() for word in option_words(name, value)]
    read = parse_words(words)
    assert (read["cpu_mem_gb"], read["headroom"], read["clean"]) == (Decimal("0.5"), Decimal("0.9"), True)
    assert [tier for tier, _ in read["throttle"]] == ["nvme", "cpu"]
    assert read["users"] == 3
    assert "cache_dir" not in forwardable_options()
    with pytest.raises(InputError, match="must be true or false"):
        option_words("gds", "maybe")


def test_the_recipe_lies_under_the_options(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    made = here("tracegen", "generate", "--set", "mix.personas=1", "--users", 1, "--requests", 1, "--set",
                "replay.generation_mode=fast", "--set", "replay.cpu_mem_gb=2", "-o", path)  # fmt: skip
    assert made.returncode == 0, made.stderr
    opened = Trace(path)
    by_recipe = overlay_recipe(opened, {"model": "tiny-1b"})
    assert (by_recipe.load.token_ms, by_recipe.capacity.cpu_mem_gb) == (2.0, 2)
    by_flags = overlay_recipe(opened, {"model": "tiny-1b", "token_ms": 7.0, "cpu_mem_gb": 0})
    assert (by_flags.load.token_ms, by_flags.capacity.cpu_mem_gb) == (7.0, 0)
    assert resolve_plan(opened, by_flags)[1].usable()[1] == 0
    with pytest.raises(InputError, match="did you mean cpu_mem_gb"):
        make_options({"cpu_mem": 1})
    with pytest.raises(InputError, match="did you mean model"):
        replayer.plan(opened, modle="tiny-1b")
