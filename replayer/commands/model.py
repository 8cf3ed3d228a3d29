"""`replayer model`: the geometry of a model's KV cache, in integers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from replayer.models.description import GroupDescription, ModelDescription, describe_model
from replayer.models.geometry import DTYPE_BYTES
from replayer.models.known import MODELS, find_model
from replayer.models.layouts import BLOCK_TOKENS, Sharding
from replayer.options.types import whole_number
from tracegen.console.answers import json_option
from tracegen.console.commands import Name, Word, command
from tracegen.errors import format_count
from views.tables import align

_MOST = 1_000_000


@command(epilog="Example: replayer model gpt-oss-120b --tensor-parallel 2")
@click.argument("name", required=False, metavar="[NAME|FILE]", type=Name(lambda: MODELS))
@click.option(
    "--kv-dtype",
    type=Word(list(DTYPE_BYTES)),
    default="fp16",
    show_default=True,
    help="Data type of keys and values.",
)
@click.option(
    "--tensor-parallel",
    type=whole_number(1, _MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="GPUs that share the KV heads of each layer.",
)
@click.option(
    "--pipeline-parallel",
    type=whole_number(1, _MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="Stages that share the layers; totals are those of the largest.",
)
@click.option(
    "--block-tokens",
    type=whole_number(1, _MOST),
    default=BLOCK_TOKENS,
    show_default=True,
    metavar="N",
    help="Tokens of a vLLM block.",
)
@json_option("the groups, the bytes and the units of engines")
def model(
    name: str | None,
    kv_dtype: str,
    tensor_parallel: int,
    pipeline_parallel: int,
    block_tokens: int,
    *,
    as_json: bool,
) -> None:
    """Print the geometry of a model's KV cache.

    The model is a known name or a Hugging Face config.json. Without a name, prints the known names
    with their bytes per token.
    """
    sharding = Sharding(kv_dtype, tensor_parallel, pipeline_parallel)
    wanted = list(MODELS.values()) if name is None else [find_model(name)]
    described = [describe_model(one, sharding, block_tokens) for one in wanted]
    if as_json:
        content = [asdict(one) for one in described]
        click.echo(json.dumps(content if name is None else content[0], indent=2))
    elif name is None:
        click.echo("\n".join(_align(_list_names(described))))
    else:
        click.echo("\n".join(_render(described[0])))


def _list_names(described: Sequence[ModelDescription]) -> Iterator[Sequence[str]]:
    yield "model", "layers", "bytes per token", "state bytes"
    for one in described:
        yield (
            one.name,
            f"{one.layers}",
            f"{one.bytes_per_token:,}",
            _format_bytes(one.state_bytes_per_object),
        )


def _render(described: ModelDescription) -> Iterator[str]:
    sharding = described.sharding
    ranks = format_count(sharding.tensor_parallel, "tensor-parallel rank")
    stages = format_count(sharding.pipeline_parallel, "pipeline stage")
    yield f"{described.name}: {described.layers} layers; {sharding.dtype}, {ranks}, {stages}"
    if described.layers_without_cache:
        yield f"  {described.layers_without_cache} layers keep nothing, or share another layer's"
    if described.counts_windows_in_full:
        yield "  plans charge its windows in full under this name; pass its config.json otherwise"
    yield ""
    yield from _align(_list_groups(described.groups))
    yield ""
    yield from _align(_list_totals(described))
    yield ""
    yield from _align(_list_units(described))


def _list_groups(groups: Sequence[GroupDescription]) -> Iterator[Sequence[str]]:
    yield "group", "layers", "tokens kept", "bytes per token and layer", "bytes per token", "state"
    for group in groups:
        kept = "none" if group.kind == "state" else "all"
        yield (
            group.kind,
            f"{group.layers}",
            kept if group.window is None else f"{group.window:,}",
            _format_bytes(group.layer_bytes_per_token),
            _format_bytes(group.bytes_per_token),
            _format_bytes(group.state_bytes),
        )


def _list_totals(described: ModelDescription) -> Iterator[Sequence[str]]:
    is_sharded = described.sharding.tensor_parallel * described.sharding.pipeline_parallel > 1
    yield "a rank of the largest stage" if is_sharded else "in all", "bytes"
    yield "token", f"{described.bytes_per_token:,}"
    if described.window:
        yield (
            f"token beyond the last {described.window:,}",
            f"{described.bytes_per_token - described.windowed_bytes_per_token:,}",
        )
    if described.state_bytes_per_object:
        yield "state, once per object", f"{described.state_bytes_per_object:,}"
    for tokens, size in described.sequence_bytes.items():
        yield f"object of {tokens:,} tokens", f"{size:,}"


def _list_units(described: ModelDescription) -> Iterator[Sequence[str]]:
    yield "engine", "tokens", "bytes", "unit"
    for layout in described.layouts:
        yield layout.engine, f"{layout.tokens:,}", f"{layout.rank_bytes:,}", layout.unit


def _format_bytes(size: int) -> str:
    """Format a number of bytes; nothing is a dash."""
    return f"{size:,}" if size else "-"


def _align(rows: Iterator[Sequence[str]]) -> list[str]:
    """Align rows in columns: words to the left, numbers to the right."""
    header, *body = rows
    is_number = [all(map(_is_numeric, column)) for column in zip(*body, strict=True)]
    return [f"  {line}" for line in align([header, *body], is_number)]


def _is_numeric(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("-", "all", "none")
