"""`replayer model`: the geometry of a model's KV cache, in integers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from replayer.models.known import MODELS, find_model
from replayer.options.command_line import group_options
from replayer.options.groups import make_options
from replayer.options.plan_groups import ModelOptions
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.commands import NAME_OR_FILE, command
from tracegen.errors import format_count
from views.answer import Answer, Cell, Column, Figure, Table

if TYPE_CHECKING:
    from replayer.models.description import GroupDescription, ModelDescription


@command(epilog="Example: replayer model gpt-oss-120b --tensor-parallel 2")
@click.argument("name", required=False, metavar="[NAME|FILE]", type=NAME_OR_FILE)
@group_options(ModelOptions, without=("model",), flags=("tensor_parallel", "pipeline_parallel"))
@answer_options(example="-o model.html", content="the groups and the bytes")
def model(name: str | None, output: AnswerOutput, **flags: Any) -> None:
    """Print the geometry of a model's KV cache.

    The model is a known name or a Hugging Face config.json. Without a name, prints the known names
    with their bytes per token.
    """
    from replayer.models.description import Sharding, describe_model

    chosen = make_options(flags).model
    sharding = Sharding(chosen.kv_dtype, chosen.tensor_parallel, chosen.pipeline_parallel)
    wanted = list(MODELS.values()) if name is None else [find_model(name)]
    described = [describe_model(one, sharding) for one in wanted]
    content = [asdict(one) for one in described]
    if name is None:
        output.show(_list_known(described), content=content)
    else:
        output.show(_answer(described[0]), content=content[0])


def _list_known(described: "Sequence[ModelDescription]") -> Answer:
    headings = ("model", "layers", "bytes per token", "state bytes")
    models = [[one.name, one.layers, one.bytes_per_token, one.state_bytes_per_object or None] for one in described]
    return Answer(
        title="Known models",
        sentence="`replayer model NAME|FILE` describes one of them, or that of a config.json",
        tables=[_tabulate("models", headings, models)],
    )


def _answer(described: "ModelDescription") -> Answer:
    sharding = described.sharding
    ranks = format_count(sharding.tensor_parallel, "tensor-parallel rank")
    stages = format_count(sharding.pipeline_parallel, "pipeline stage")
    subject = [f"{described.layers} layers; {sharding.dtype}, {ranks}, {stages}"]
    if described.layers_without_cache:
        subject.append(f"{described.layers_without_cache} layers keep nothing, or share another layer's")
    if described.vllm_block_tokens:
        subject.append(f"blocks of vLLM have {described.vllm_block_tokens:,} tokens, so that a page holds a state")
    if described.counts_windows_in_full:
        subject.append("plans charge its windows in full under this name; pass its config.json otherwise")
    return Answer(
        title=described.name,
        subject=subject,
        sentence=f"a token takes {described.bytes_per_token:,} bytes on a rank of the largest stage",
        figures=_list_totals(described),
        tables=[_tabulate_groups(described.groups)],
    )


def _tabulate_groups(groups: "Sequence[GroupDescription]") -> Table:
    headings = ("group", "layers", "tokens kept", "bytes per token and layer", "bytes per token", "state")
    rows: list[list[Cell]] = [
        [
            one.kind,
            one.layers,
            one.window or ("none" if one.kind == "state" else "all"),
            # A dash: a state has no bytes per token, and other groups have no state.
            *(number or None for number in (one.layer_bytes_per_token, one.bytes_per_token, one.state_bytes)),
        ]
        for one in groups
    ]
    return _tabulate("layers that keep the same", headings, rows)


def _tabulate(title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    return Table(title=title, columns=[Column(heading) for heading in headings], rows=rows)


def _list_totals(described: "ModelDescription") -> list[Figure]:
    """Return the bytes on a rank of the largest stage."""
    totals = {"token": described.bytes_per_token}
    if described.window:
        beyond = described.bytes_per_token - described.windowed_bytes_per_token
        totals[f"token beyond the last {described.window:,}"] = beyond
    if described.state_bytes_per_object:
        totals["state, once per object"] = described.state_bytes_per_object
    totals |= {f"object of {tokens:,} tokens": size for tokens, size in described.sequence_bytes.items()}
    return [Figure(name=label, label=f"{label}, in bytes", value=size) for label, size in totals.items()]
