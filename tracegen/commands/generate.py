"""The commands that make traces of recipes: generate and recipes."""

import json
import re
from typing import Final

import click

from tracegen.commands.options import ReportedTrace, add_output_flags, drop_missing, report_trace, setting_flags, warn
from tracegen.console.answers import json_option
from tracegen.console.commands import NAME_OR_FILE, command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError
from tracegen.recipes import loading
from tracegen.recipes.recipe import Recipe


def _parse_shard(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if match and int(match[1]) < int(match[2]):
        return int(match[1]), int(match[2])
    problem = "not of the form I/N with I from 0 to N - 1"
    raise InputError(problem, "write it like 0/4", subject=text[:40], setting="shard")


_CONVERSATIONS: Final = {
    "sharegpt.path --sharegpt": "A file of conversations in ShareGPT's format.",
    "sharegpt.max_conversations": "Sample at most N conversations, by seed.",
    "sharegpt.max_context_tokens": "Clamp the prompt of a turn.",
    "sharegpt.max_generation_tokens": "Clamp the answer of a turn.",
    "sharegpt.glue": "Join segments of one conversation.  [default: glue]",
    "tokenizer": "Bundled name, local directory or hub name.",
}
_WORKLOAD: Final = {
    "users": "Users, who take conversations in turn.",
    "duration_s": "Only requests that arrive before this time: 90, 5m, 1h.",
    "requests": "Only the first N requests.",
    "history": "Earlier turns that a turn reads.",
    "context_growth": "Later prompts hold the last answer and a question.",
    "block_tokens": "Cut prompts into prefix-chained blocks of N tokens.",
    "save_decode": "Store the KV of generated tokens, too.",
    "decode_reads": "Decoding reads its objects back.  [default: if a replay asks; not for blocks]",
    "bytes_per_token": "Bytes per token of your model; limits the size of RAG's chunks.",
    "seed": "Equal seeds, recipes and inputs give equal traces.  [default: 0]",
}


@command(
    short_help="Make the trace of a recipe.",
    epilog="Example: tracegen generate --sharegpt chats.json --users 50 --seed 1 -o trace.parquet",
)
@click.argument("recipe", required=False, type=NAME_OR_FILE)
@option_group(
    "Conversations", "--sharegpt chats.json --max-conversations 500", *setting_flags(Recipe(), _CONVERSATIONS)
)
@option_group("Workload", "--users 50 --duration 5m --seed 1", *setting_flags(Recipe(), _WORKLOAD))
@option_group(
    "Recipe and processes",
    "--set prefix.share=0.5 --jobs 4",
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any recipe key, for example prefix.share=0.5 (docs/recipes.md).",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1, 256),
        default=1,
        show_default=True,
        help="Number of processes; the trace is the same.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        default="0/1",
        callback=_parse_shard,
        help="Only shard I (from 0) of N, divided by users, for `merge`.",
    ),
)
@add_output_flags
def generate(
    recipe: str | None,
    settings: tuple[str, ...],
    jobs: int,
    shard: tuple[int, int],
    output: ReportedTrace,
    **flags: object,
) -> None:
    """Write the trace of a RECIPE: a TOML file, or a name that `tracegen recipes` lists.

    Without RECIPE, the trace is made of a ShareGPT file or of --set mix.…. Flags override the
    recipe, and the recipe overrides the defaults.
    """
    from tracegen.generate import generate as write_trace

    overrides = _parse_settings(settings) | drop_missing(flags)
    path = None if recipe is None else loading.find_recipe(recipe)
    resolved = loading.load_recipe(path, overrides)
    metadata = write_trace(
        resolved,
        output.path,
        shard=shard,
        jobs=jobs,
        part_ops=output.part_ops,
        force=output.force,
        progress=show_progress,
    )
    requests = metadata.counts["requests"]
    if resolved.requests > requests and shard[1] == 1:
        warn(f"{resolved.requests:,} requests were asked for, but the sources and the duration hold {requests:,}")
    report_trace(output, metadata)


def _parse_settings(settings: tuple[str, ...]) -> dict[str, object]:
    """Parse the KEY=VALUE pairs of --set."""
    overrides: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            remedy = "write it like users=5"
            raise InputError("not of the form KEY=VALUE", remedy, subject=setting[:60], setting="settings")
        overrides[key.strip()] = loading.parse_value(value)
    return overrides


@command(epilog="Example: tracegen recipes chat")
@click.argument("name", required=False)
@json_option("the purpose of each recipe, by name")
def recipes(name: str | None, as_json: bool) -> None:
    """List the recipes that come with the package, or print one."""
    if name is not None:
        click.echo(loading.find_recipe(name).read_text(encoding="utf-8"), nl=False)
        return
    purposes = loading.list_shipped()
    if as_json:
        click.echo(json.dumps(purposes, indent=2, ensure_ascii=False))
        return
    width = max(map(len, purposes))
    click.echo("\n".join(f"{recipe:{width}}  {purpose}" for recipe, purpose in purposes.items()))
