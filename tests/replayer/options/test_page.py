"""docs/options.md holds every option of a replay as it is declared: `python -m tests.replayer.options.test_page`."""

from collections.abc import Iterator

from replayer.options.command_line import declared_as, describe_default, fields_of
from replayer.options.resolving import GROUPS
from replayer.record.conditions import CONDITION_GROUPS
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "options.md"
HEAD = """# Every option of a replay

    replayer run trace.parquet --cpu-mem-gb 4 --set headroom=90% --config run.toml -o run

`replayer run` takes all of these options, `plan`, `why`, `size` and `simulate` those up to Load but `placement`, and
`predict` also those of Length. A rare option is no flag, but every option is a key of `--set`, of the TOML file of
`--config` (`cpu_mem_gb = 4`) and of [sweeps](sweeps.md), and those of a plan are arguments of `replayer.plan`. A flag
comes first, then `--set`, then the file, then the recipe of the trace, then the default. The last column names what
run.json records of an option: runs that differ in it are compared only if you say so.
"""


def print_page() -> Iterator[str]:
    yield HEAD
    for group in GROUPS.values():
        yield f"## {group.heading}\n\n    {group.example}\n"
        yield "| option | values | default | meaning | conditions |\n|---|---|---|---|---|"
        for name, (_, field) in fields_of([group]).items():
            text, declared = declared_as(field)
            flag = f"`--set {name}=`" if declared.rare else f"`--{name.replace('_', '-')}`"
            choices = ", ".join(getattr(declared.kind, "choices", ()))
            values = declared.metavar or choices or ("true, false" if declared.kind is None else "text")
            cells = (flag, values, describe_default(field), text, declared.conditions)
            yield f"| {' | '.join(cell.replace('|', ' or ') for cell in cells)} |"
        yield ""


def test_the_page_is_as_printed() -> None:
    assert PAGE.read_text() == "\n".join(print_page()), "python -m tests.replayer.options.test_page"


def test_each_condition_follows_from_an_option_or_the_run() -> None:
    declared = [declared_as(field)[1].conditions.split() for _, field in fields_of(GROUPS.values()).values()]
    of_model = {"windowed_bytes_per_token", "attention_window", "state_bytes_per_object"}
    assert {name for names in declared for name in names} | of_model | {"part", "ranks"} == {
        name for names in CONDITION_GROUPS.values() for name in names
    }


if __name__ == "__main__":
    PAGE.write_text("\n".join(print_page()))
