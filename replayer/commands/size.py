"""`replayer size`: find the least DRAM and NVMe that reach a hit rate, without I/O."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from replayer.options.command_line import config_options, plan_options
from replayer.options.groups import PLAN_GROUPS
from replayer.options.types import PLAIN, SHARE, UNLIMITED, list_options
from replayer.record.options import BYS
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.command_line import GIB_S, Quantity, Unit
from tracegen.console.commands import Word, command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError

if TYPE_CHECKING:
    from replayer.questions.sizes import Wanted

_EXAMPLE: Final = "replayer size trace.parquet --model llama3.1-8b --hit-rate 0.9 --dwpd 1"
# Defaults that are not those of `replayer plan`, as the help says them.
_OWN_DEFAULTS: Final = {"cpu_mem_gb": "found", "storage_capacity_gb": "found", "order": "trace"}


@command(epilog=f"Example: {_EXAMPLE} --nvme-gib-s 7")
@click.argument("trace", type=click.Path(path_type=Path))
@option_group(
    "Targets and prices",
    "--hit-rate 90% --dwpd 1 --nvme-gib-s 7",
    click.option(
        "--hit-rate",
        type=Quantity(SHARE, Decimal, low=1e-9, high=1),
        required=True,
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
        type=Quantity(PLAIN, Decimal, low=0),
        metavar="PRICE",
        help="Price of a GiB of DRAM: the cheapest sizes are chosen, not the least DRAM.",
    ),
    click.option(
        "--price-nvme",
        type=Quantity(PLAIN, Decimal, low=0),
        metavar="PRICE",
        help="Price of a GiB of NVMe, in the same currency.",
    ),
)
@plan_options(_OWN_DEFAULTS)
@config_options
@answer_options(has_charts=True, content="the sizes found and what decides them")
def size(trace: Path, output: AnswerOutput, **flags: Any) -> None:
    """Find the least DRAM and NVMe that reach a hit rate.

    Does no I/O. Finds both sizes, or one if --cpu-mem-gb or --storage-capacity-gb gives the other.
    """
    from replayer.options.resolving import overlay_recipe, resolve_plan
    from replayer.planning.plan import Plan
    from replayer.questions.size import Sizing
    from replayer.questions.size_answer import answer_size
    from replayer.questions.sizes import SizePlanner
    from tracegen.schema import Trace

    wanted = _read_wanted(flags)
    opened = Trace(trace)
    unset: dict[str, object] = {"cpu_mem_gb": Decimal(0), "storage_capacity_gb": UNLIMITED}
    # A reference order depends on the sizes, so that plans for two sizes would differ in both.
    unset["order"] = flags["order"] or "trace"
    given = {name: flags[name] for name in list_options(*PLAN_GROUPS) if name in flags}
    model, options = resolve_plan(opened, overlay_recipe(opened, given | unset))
    with show_progress("sizing", "plan", None) as advance:
        planner = SizePlanner(Plan(opened, options), wanted, advance)
        served = None
        if flags["order"] is None:
            usual = resolve_plan(opened, overlay_recipe(opened, given | unset | {"order": None}))[1]
            if usual.order.kind != "trace":
                served = SizePlanner(Plan(opened, usual), wanted, advance)
        sized = Sizing(planner).find(served)
    output.show(answer_size(sized, planner, model))


def _read_wanted(flags: Mapping[str, Any]) -> "Wanted":
    """Read the targets and decisions; refuse those that contradict each other."""
    from replayer.questions.sizes import Wanted

    if flags["cpu_mem_gb"] is not None and flags["storage_capacity_gb"] is not None:
        raise InputError(
            "both sizes are given, so there is nothing to find",
            "leave `cpu_mem_gb` or `storage_capacity_gb` out, or use replayer plan",
        )
    # A single price would make the other medium free.
    if (flags["price_dram"] is None) != (flags["price_nvme"] is None):
        missing = "price_nvme" if flags["price_nvme"] is None else "price_dram"
        raise InputError("one price decides nothing", f"pass `{missing}`, too")
    names = ("hit_rate", "by", "dwpd", "nvme_gib_s", "price_dram", "price_nvme")
    sizes = {"cpu": flags["cpu_mem_gb"], "nvme": flags["storage_capacity_gb"]}
    return Wanted(**{name: flags[name] for name in names}, **sizes)
