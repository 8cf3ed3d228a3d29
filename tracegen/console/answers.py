"""The answer of a command: the flags that say where it goes, and how it gets there."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from tracegen.console.commands import Decorator, option_group
from tracegen.errors import InputError, escape_controls
from tracegen.outputs import check_output, open_output
from views.answer import Answer
from views.formats import FORMATS

_SUFFIXES: Final = ", ".join(f".{form}" for form in FORMATS)
_PATH: Final = click.Path(path_type=Path)
_CHARTS: Final = click.option("--charts", type=_PATH, metavar="DIR", help="Also save each chart as SVG and PNG.")


@dataclass(frozen=True)
class AnswerOutput:
    """The places that an answer goes to.

    Attributes:
        file: the file that it is also written to, in the format of its suffix.
        charts: the folder that its charts are saved in.
        force: whether existing files may be replaced.
        as_json: whether the terminal gets JSON, not text.
        table: a file that the command itself writes, as its suffix names no format of an answer.
    """

    file: Path | None = None
    charts: Path | None = None
    force: bool = False
    as_json: bool = False
    table: Path | None = None

    def check(self) -> None:
        """Refuse what cannot be written, before work starts that may take minutes.

        Raises:
            InputError: says why.
        """
        if self.file is not None:
            if self.file.suffix[1:].lower() not in FORMATS:
                remedy = f"name a file that ends with {_SUFFIXES}"
                raise InputError("its suffix names no format", remedy, subject=self.file, setting="output")
            _refuse_runs(self.file, "output")
            check_output(self.file, force=self.force)
        if self.charts is not None:
            _refuse_runs(self.charts, "charts")
            is_usable = self.charts.is_dir() and (self.force or not any(self.charts.iterdir()))
            if not is_usable:
                check_output(self.charts, force=self.force, setting="charts", is_replaceable=Path.is_dir)

    def show(self, answer: Answer, form: str = "txt", content: object = None) -> None:
        """Print an answer, and write its files.

        Args:
            answer: the answer.
            form: how it is printed without --json; empty to print nothing.
            content: what --json prints instead of the answer.

        Raises:
            InputError: a file cannot be written.
        """
        if self.as_json and content is not None:
            click.echo(json.dumps(content, indent=2))
        elif self.as_json or form:
            show_text(FORMATS["json" if self.as_json else form](answer))
        # After the text, which is not lost if the disk is full.
        if self.file is not None:
            written = FORMATS[self.file.suffix[1:].lower()](answer).encode()
            with open_output(self.file, force=True) as file:
                file.write(written)
            if not form:
                show_text(f"{self.file}: {len(written):,} bytes", err=True)
        if self.charts is not None:
            from views.charts import save_charts  # noqa: PLC0415 (loading the renderer takes half a second)

            save_charts(answer.charts, self.charts)


def _refuse_runs(path: Path, setting: str) -> None:
    """Refuse a place in a run directory, which must not change after the run."""
    target = path.resolve()
    for folder in (target, *target.parents):
        if (folder / "run.json").is_file():
            problem = f"in the run {folder}, which must not change"
            raise InputError(problem, "choose another place", subject=path, setting=setting)


def show_text(text: str, *, err: bool = False) -> None:
    """Print text with its control characters escaped: names in files may contain any."""
    click.echo(escape_controls(text), nl=not text.endswith("\n"), err=err)


def json_option(content: str = "the answer") -> Decorator:
    """Return an option --json, `as_json`, whose help names what is printed."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {content}.")


def answer_options(
    *own: Decorator,
    heading: str = "Output",
    example: str = "-o answer.html",
    content: str = "the answer",
    has_charts: bool = False,
    table: str = "",
) -> Decorator:
    """Return a decorator that adds the flags of an answer to a command, which gets them as `output`.

    Args:
        own: further options of the group.
        heading: of the group.
        example: of its options.
        content: what --json prints.
        has_charts: whether the answer has charts, to be saved by --charts.
        table: the file that the command itself writes under --output, in words.
    """
    text = f"Also write the answer to this file: {_SUFFIXES}."
    flags: Sequence[Decorator] = (
        *own,
        click.option("-o", "--output", type=_PATH, metavar="FILE", help=f"{text[:-1]}; or {table}." if table else text),
        *((_CHARTS,) if has_charts else ()),
        click.option("--force", is_flag=True, help="Replace an output that exists."),
        json_option(content),
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run_command(
            *args: Any,
            output: Path | None,
            force: bool,
            as_json: bool,
            charts: Path | None = None,
            **others: Any,
        ) -> Any:
            is_table = bool(table) and output is not None and output.suffix[1:].lower() not in FORMATS
            file, own_file = (None, output) if is_table else (output, None)
            to = AnswerOutput(file, charts, force, as_json, own_file)
            to.check()
            return command(*args, output=to, **others)

        return option_group(heading, example, *flags)(run_command)

    return decorate
