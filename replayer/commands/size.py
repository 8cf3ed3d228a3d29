"""`replayer size`: find the least DRAM and NVMe that reach a hit rate, without I/O."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

import click
import msgspec

from replayer.commands.shared.series_options import json_option
from replayer.models.known import MODELS, find_model
from replayer.options.command_line import config_options, plan_options
from replayer.options.resolving import PLAN_GROUPS, Values, make_options, overlay_recipe, resolve_plan
from replayer.options.types import PLAIN, SHARE, UNLIMITED
from replayer.planning.plan import Plan
from replayer.record.options import DECODE_WORDS
from replayer.sizing import text
from replayer.sizing.answer import Answer, Choice, Sizing
from replayer.sizing.halves import BYS, By
from replayer.sizing.planned import SizePlanner
from replayer.sizing.rounds import Rounds
from replayer.sizing.search import SizeTargets
from tracegen.console.command_line import GIB_S, Quantity, Unit
from tracegen.console.commands import Word, command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError
from tracegen.schema import Trace

_SIZES: Final = {
    "GB": Decimal(10**9),
    "GiB": Decimal(2**30),
    "TB": Decimal(10**12),
    "TiB": Decimal(2**40),
}
_ROUNDS: Final = re.compile(r"([1-9]\d{0,8})[x×]([1-9]\d{0,3})[x×]([1-9]\d{0,8})", re.ASCII)
_GB: Final = Unit("GB (10^9 bytes)", Decimal(10**9), _SIZES, "80GB, 74.5GiB or 1TB")
_SHARDING: Final = ("tensor_parallel", "pipeline_parallel")
_OF_ROUNDS: Final = ("rounds", "pool_gb", "model", "kv_dtype", *_SHARDING, "as_json")
"""Flags that go with --rounds."""


Flags = Mapping[str, Any]
"""Values of the flags by name."""


class RoundsType(click.ParamType[Rounds]):
    """CLIENTSxROUNDSxTOKENS."""

    name = "rounds"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Rounds:
        """Parse the three numbers."""
        if isinstance(value, Rounds):
            return value
        match = _ROUNDS.fullmatch(str(value))
        if not match:
            problem = f"{value!r} is not CLIENTSxROUNDSxTOKENS; write for example 20x10x4096."
            self.fail(problem, param, ctx)
        return Rounds(*map(int, match.groups()))


_EXAMPLE: Final = "replayer size trace.parquet --model llama3.1-8b --hit-rate 0.9 --dwpd 1"
_OWN_DEFAULTS: Final = {"cpu_mem_gb": "found", "storage_capacity_gb": "found", "order": "trace"}
"""Defaults that are not those of `replayer plan`, as the help says them."""


@command(epilog=f"Example: {_EXAMPLE} --nvme-gib-s 7")
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@option_group(
    "Targets and prices",
    "--hit-rate 90% --dwpd 1 --nvme-gib-s 7",
    click.option(
        "--hit-rate",
        type=Quantity(SHARE, Decimal),
        metavar="SHARE",
        help="The least hit rate: 0.9, or 90%.",
    ),
    click.option(
        "--by",
        type=Word(BYS),
        default="tokens",
        show_default=True,
        help="What --hit-rate counts; decode reads never count. tokens: prompt tokens that hits"
        " spare, as vLLM reports. ops: reads that hit. requests: those all of whose reads hit.",
    ),
    click.option(
        "--dwpd",
        type=Quantity(Unit("drive writes per day", Decimal(1), {}, "1 or 0.3"), low=1e-6),
        metavar="N",
        help="The most bytes written to NVMe per day, over its capacity.  [default: any number]",
    ),
    click.option(
        "--nvme-gib-s",
        type=Quantity(GIB_S, low=1e-6),
        metavar="RATE",
        help="The most GiB/s of NVMe, reads and writes together: 7, or 7GB/s.  [default: any rate]",
    ),
    click.option(
        "--price-dram",
        type=Quantity(PLAIN, Decimal),
        metavar="PRICE",
        help="Price of a GiB of DRAM: the cheapest sizes are chosen, not the least DRAM.",
    ),
    click.option(
        "--price-nvme",
        type=Quantity(PLAIN, Decimal),
        metavar="PRICE",
        help="Price of a GiB of NVMe, in the same currency.",
    ),
)
@option_group(
    "Without a trace",
    "--rounds 20x10x4096 --pool-gb 80 --model llama3.1-8b",
    click.option(
        "--rounds",
        type=RoundsType(),
        metavar="CLIENTSxROUNDSxTOKENS",
        help="Without a trace: clients that each add a turn of TOKENS per round.",
    ),
    click.option(
        "--pool-gb",
        type=Quantity(_GB, low=1e-6, high=1e9, kind=Decimal),
        metavar="GB",
        help="With --rounds: the memory that all clients share, in GB of 10^9 bytes, or 74.5GiB.",
    ),
)
@plan_options(_OWN_DEFAULTS)
@config_options
@option_group("Output", "--json", json_option("the sizes found and what decides them"))
def size(trace: Path | None, rounds: Rounds | None, as_json: bool, **flags: Any) -> None:
    """Find the least DRAM and NVMe that reach a hit rate.

    Does no I/O. Finds both sizes, or one if --cpu-mem-gb or --storage-capacity-gb gives the other.
    With --prefill-tok-s and --nvme-gib-s, also says whether loading beats computing again.

    --rounds 20x10x4096 --model NAME --pool-gb 80 says without a trace in which round hits fall.
    """
    if rounds is not None:
        _size_rounds(rounds, flags, has_trace=trace is not None, as_json=as_json)
        return
    if trace is None:
        raise InputError("no trace is named", "name one, or pass `rounds` and `pool_gb`")
    _size_trace(Trace(trace), flags, as_json=as_json)


def _size_trace(trace: Trace, flags: Flags, *, as_json: bool) -> None:
    targets, choice = _read_targets(flags), _read_choice(flags)
    if flags["pool_gb"] is not None:
        raise InputError("goes with `rounds` only", "leave it out", setting="pool_gb")
    unset: dict[str, object] = {"cpu_mem_gb": Decimal(0), "storage_capacity_gb": UNLIMITED}
    # A reference order depends on the sizes, so that plans for two sizes would differ in both.
    unset["order"] = flags["order"] or "trace"
    model, options = resolve_plan(trace, overlay_recipe(trace, _plan_options(flags) | unset))
    with show_progress("sizing", "plan", None) as advance:
        planner = SizePlanner(Plan(trace, options), advance)
        answer = Sizing(planner, targets, choice).answer()
    if as_json:
        click.echo(json.dumps(_to_json(answer, model), indent=2))
        return
    bytes_per_token = f"{options.bytes_per_token.per_token:,} bytes per token"
    title = f"{trace.path} for {model}, {bytes_per_token}; {DECODE_WORDS[options.selection.decode]}"
    click.echo("\n".join([title, *text.format_answer(answer)]))


def _plan_options(flags: Flags) -> Values:
    """Return the options of a plan among the flags."""
    names = {name for group in PLAN_GROUPS for name in group.__struct_fields__}
    return {name: value for name, value in flags.items() if name in names}


def _read_targets(flags: Flags) -> SizeTargets:
    rate = flags["hit_rate"]
    if rate is None:
        raise InputError("no hit rate is asked for", "pass one, such as `hit_rate=0.9`")
    if not 0 < rate <= 1:
        problem = "is not a share from 0 to 1"
        raise InputError(problem, "write 0.9 or 90%", subject=rate, setting="hit_rate")
    return SizeTargets(rate, cast("By", flags["by"]), flags["dwpd"], flags["nvme_gib_s"])


def _read_choice(flags: Flags) -> Choice:
    choice = Choice(
        flags["cpu_mem_gb"],
        flags["storage_capacity_gb"],
        flags["price_dram"],
        flags["price_nvme"],
        flags["prefill_tok_s"],
    )
    if choice.cpu is not None and choice.nvme is not None:
        raise InputError(
            "both sizes are given, so there is nothing to find",
            "leave `cpu_mem_gb` or `storage_capacity_gb` out, or use replayer plan",
        )
    if (choice.price_dram is None) != (choice.price_nvme is None):
        missing = "price_nvme" if choice.price_nvme is None else "price_dram"
        raise InputError("one price decides nothing", f"pass `{missing}`, too")
    for name in ("price_dram", "price_nvme"):
        if (flags[name] or 0) < 0:
            raise InputError("is negative", "pass a price", subject=flags[name], setting=name)
    return choice


def _to_json(answer: Answer, model: str) -> dict[str, object]:
    content = asdict(answer)
    content["targets"]["hit_rate"] = float(answer.targets.hit_rate)
    return {"model": model, **msgspec.to_builtins(content)}


def _size_rounds(rounds: Rounds, flags: Flags, *, has_trace: bool, as_json: bool) -> None:
    context = click.get_current_context()
    for name in flags:
        is_given = context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        if is_given and name not in _OF_ROUNDS:
            problem = "decides all but model and pool"
            raise InputError(problem, f"leave out `{name}`", setting="rounds")
    if has_trace:
        raise InputError("needs no trace", "leave the trace out", setting="rounds")
    for name in ("model", "pool_gb"):
        if flags[name] is None:
            known = f", one of {', '.join(MODELS)}" if name == "model" else ", such as `pool_gb=80`"
            raise InputError(f"`{name}` is missing", f"pass it{known}", setting="rounds")
    chosen = make_options(_plan_options(flags)).model
    sizes = find_model(flags["model"]).sizes(chosen.kv_dtype, chosen.tensor_parallel, chosen.pipeline_parallel)
    pool_bytes = int(flags["pool_gb"] * 10**9)
    if not as_json:
        click.echo("\n".join(text.format_rounds(rounds, sizes, pool_bytes)))
        return
    content = {
        "bytes_per_token": sizes.per_token,
        "pool_bytes": pool_bytes,
        "working_set_bytes": rounds.working_sets(sizes),
        "first_round_above": rounds.first_above(sizes, pool_bytes),
        "clients_that_fit": rounds.clients_that_fit(sizes, pool_bytes),
    }
    click.echo(json.dumps(content, indent=2))
