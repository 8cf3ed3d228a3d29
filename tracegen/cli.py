"""The command line of tracegen."""

import json
import re
from pathlib import Path
from typing import Any

import click

from tracegen.commands import trace_tools as cli_tools
from tracegen.commands.options import Making, report, written
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.describe import info as facts
from tracegen.describe.plot import check_picture, plot
from tracegen.describe.reuse import measure
from tracegen.errors import InputError, escape_controls
from tracegen.generate import generate as write_trace
from tracegen.recipe import loading as recipe_settings
from tracegen.recipe.recipe import Recipe
from tracegen.schema import Trace

DEFAULTS = Recipe()


def _shard(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    index, count = map(int, found.groups()) if found else (0, 0)
    if index >= count:
        raise InputError(f"--shard {text[:40]}: write it as I/N with I from 0 to N - 1, e.g. 0/4.")
    return index, count


@click.group(cls=Making, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Make traces of KV-cache operations, take other labs' in and out, change, compare and describe them."""


@main.command(
    short_help="Make the trace of a recipe.",
    epilog="Example: tracegen generate --sharegpt chats.json --users 50 --seed 1 -o trace.parquet",
)
@click.argument("recipe", required=False)
@click.option(
    "--sharegpt", "--dataset-path", "sharegpt__path", metavar="FILE", help="Conversations, ShareGPT's format."
)
@click.option("--max-conversations", "sharegpt__max_conversations", type=int, help="Sample at most N of them, by seed.")
@click.option("--max-context-tokens", "sharegpt__max_context_tokens", type=int, help="Clamp the prompt of a turn.")
@click.option(
    "--max-generation-tokens", "sharegpt__max_generation_tokens", type=int, help="Clamp the answer of a turn."
)
@click.option(
    "--glue/--no-glue", "sharegpt__glue", default=None, help="Join segments of one conversation.  [default: glue]"
)
@click.option(
    "--tokenizer",
    metavar="NAME|DIR",
    help=f"Bundled name, local directory or hub name.  [default: {DEFAULTS.tokenizer}]",
)
@click.option(
    "--users", "--num-users", type=int, help=f"Users that take conversations in turn.  [default: {DEFAULTS.users}]"
)
@click.option(
    "--duration",
    "duration_s",
    type=Quantity(SECONDS),
    metavar="S",
    help="Only requests that arrive before S seconds, or 5m, 1h.",
)
@click.option("--requests", "--max-requests", type=int, help="Only the first N requests.")
@click.option(
    "--history",
    type=click.Choice(["all", "previous"]),
    help=f"Which earlier turns a turn reads.  [default: {DEFAULTS.history}]",
)
@click.option("--context-growth", is_flag=True, default=None, help="Later prompts hold the last answer and a question.")
@click.option("--block-tokens", type=int, metavar="B", help="Cut prompts into prefix-chained blocks of B tokens.")
@click.option("--save-decode", is_flag=True, default=None, help="Store the KV of generated tokens, too.")
@click.option(
    "--decode-reads/--no-decode-reads", default=None, help="Decoding reads its objects back.  [default: not for blocks]"
)
@click.option("--bytes-per-token", type=int, metavar="N", help="Of the model in mind; limits the size of RAG's chunks.")
@click.option(
    "--seed", type=int, help=f"Equal seeds, recipes and inputs give equal traces.  [default: {DEFAULTS.seed}]"
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any recipe key, e.g. prefix.share=0.5 (docs/recipes.md).",
)
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes; same trace.")
@click.option("--shard", metavar="I/N", callback=_shard, help="Only part I (from 0) of N, by users, for `merge`.")
@written
def generate(
    recipe: str | None,
    settings: tuple[str, ...],
    output: Path,
    jobs: int,
    shard: tuple[int, int] | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Write the trace of a RECIPE: a TOML file, or a name that `tracegen recipes` lists.

    Without one, of a ShareGPT file or of --set mix.…. Flags override the recipe, and the recipe overrides the defaults.
    """
    if shard and jobs > 1:
        raise InputError("--shard makes one part in one process; leave out --jobs.")
    writing = {name: flags.pop(name) for name in ("force", "part_ops")}
    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting[:60]}: write it as KEY=VALUE.")
        overrides[key.strip()] = recipe_settings.parse_value(value)
    overrides |= {name.replace("__", "."): value for name, value in flags.items() if value is not None}
    resolved = recipe_settings.load_recipe(None if recipe is None else recipe_settings.find_recipe(recipe), overrides)
    metadata = write_trace(resolved, output, part=shard, jobs=jobs, **writing)
    if resolved.requests > metadata.counts["requests"] and not shard:
        click.echo(
            f"Warning: {resolved.requests:,} requests were asked for, the sources and duration hold"
            f" {metadata.counts['requests']:,}.",
            err=True,
        )
    report(output, metadata, as_json)


@main.command(epilog="Example: tracegen recipes chat")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object of names, each with what it is for.")
def recipes(name: str | None, as_json: bool) -> None:
    """List the recipes that come with the package, or print one."""
    if name is not None:
        click.echo(recipe_settings.find_recipe(name).read_text(encoding="utf-8"), nl=False)
        return
    known = recipe_settings.list_shipped()
    width = max(map(len, known))
    lines = (f"{one:{width}}  {purpose}" for one, purpose in known.items())
    click.echo(json.dumps(known, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


@main.command(short_help="Describe a trace, or draw it.", epilog="Example: tracegen info trace.parquet")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), metavar="FILE", help="Draw it, too: .svg or .png.")
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
def info(trace: Path, as_json: bool, picture: Path | None, force: bool) -> None:
    """Describe a trace: counts, lengths, reuse by source and distance, provenance."""
    opened = Trace(trace)
    if picture is not None:
        check_picture(picture, force=force)
    described, reuse = facts.describe(opened), measure(opened)
    if picture is not None:
        plot(opened, picture, described, reuse, force=force)
    described = facts.with_reuse(described, reuse)
    click.echo(json.dumps(described, indent=2) if as_json else escape_controls(facts.render(described)))


@main.command(short_help="Check every rule of the format.", epilog="Example: tracegen validate trace.parquet")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def validate(trace: Path, as_json: bool) -> None:
    """Check every invariant of the format; lists the first hundred violations and exits 1 if there is any."""
    opened = Trace(trace)
    found = opened.violations()
    if as_json:
        problems = [vars(problem) for problem in found.first]
        click.echo(json.dumps({"ops": opened.ops, "violations": found.count, "problems": problems}, indent=2))
    else:
        for problem in found.first:
            click.echo(escape_controls(f"{trace}, {problem}"))
        if found.count > len(found.first):
            click.echo(f"{trace}: {found.count - len(found.first):,} more violations are not listed")
        verdict = f"{found.count:,} violations" if found.count else f"valid, fingerprint {opened.metadata.fingerprint}"
        click.echo(f"{trace}: {opened.ops:,} ops, {verdict}")
    if found.count:
        raise click.exceptions.Exit(1)


for command in (
    cli_tools.import_,
    cli_tools.export,
    cli_tools.merge,
    cli_tools.slice_,
    cli_tools.scale,
    cli_tools.diff,
):
    main.add_command(command)
