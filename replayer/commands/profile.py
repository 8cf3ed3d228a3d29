"""`replayer profile`: measure how long the tiers of this machine take."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from replayer.commands.shared.screens import TerminalScreen
from replayer.commands.shared.series_options import output_option
from replayer.options.command_line import config_options, group_options
from replayer.options.groups import make_options
from replayer.options.run_groups import DeviceOptions
from replayer.options.types import list_of
from replayer.record.conditions import Tier
from replayer.record.options import DEVICE_LAYOUTS, TIERS
from tracegen.console.answers import json_option
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.console.commands import Word, command, option_group
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import InputError
from tracegen.outputs import check_output
from views.formats import FORMATS

if TYPE_CHECKING:
    from replayer.profiling.rounds import ShowRun

_BUDGET_S: Final = 120


@command(epilog="Example: replayer profile --cache-dir /mnt/nvme -o drive.toml")
@group_options(DeviceOptions, without=("gds",))
@config_options
@option_group(
    "Measuring and output",
    "--tier cpu,nvme --budget 5m -o drive.toml",
    click.option(
        "--tier",
        "tiers",
        type=list_of(Word(TIERS)),
        metavar="TIER,…",
        help="Tiers to measure: gpu, cpu, nvme.  [default: cpu,nvme with --cache-dir, else cpu]",
    ),
    click.option(
        "--budget",
        type=Quantity(SECONDS, low=1, high=86400),
        default=_BUDGET_S,
        show_default=True,
        metavar="S",
        help="Time that measuring should take, in seconds or with a unit: 30s, 5m.",
    ),
    output_option("The profile to write, a TOML file.", "FILE"),
    click.option("--force", is_flag=True, help="Replace the profile if it exists."),
    json_option("the profile"),
)
def profile(
    output: Path, tiers: tuple[Tier, ...] | None, budget: float, *, as_json: bool, force: bool, **flags: Any
) -> None:
    """Measure this machine's tiers for `replayer predict`.

    The profile is for replays with the same layout, I/O and verification. Nothing else should run
    on the machine meanwhile (docs/predicting.md).
    """
    from replayer.commands.shared.profile_answer import answer_profile
    from replayer.options.resolving import resolve_io
    from replayer.options.settings import Settings
    from replayer.planning.pace import Demand, Pace
    from replayer.prediction.profile_file import load_profile, save_profile
    from replayer.profiling.measuring import measure_profile
    from replayer.profiling.rounds import WORKERS

    check_output(output, force=force)  # before two minutes are spent
    devices = make_options(flags).devices
    wanted = tiers or _default_tiers(devices)
    if "nvme" in wanted and devices.cache_dir is None and devices.layout in DEVICE_LAYOUTS:
        raise InputError("the nvme tier needs a place", "pass `cache_dir=DIR`", setting="tiers")
    screen = TerminalScreen()
    io, notes = resolve_io(devices, max(WORKERS))
    for note in notes:
        screen.warn(note)
    # Buffers are made for the most workers that any round has.
    settings = Settings(Demand(Pace(), max(WORKERS)), devices, io)
    # A signal may come while a tier is open: it is asked for between phases.
    with INTERRUPTS.defer(), _show_progress() as progress:
        measured = measure_profile(
            output.stem, wanted, settings, float(budget), progress, screen.warn, INTERRUPTS.check
        )
    save_profile(measured, output)
    # Read back: what is shown is what later predictions load.
    answer = answer_profile(load_profile(output), output)
    click.echo(FORMATS["json" if as_json else "txt"](answer), nl=False)


def _default_tiers(devices: DeviceOptions) -> tuple[Tier, ...]:
    has_drive = devices.cache_dir is not None or devices.layout not in DEVICE_LAYOUTS
    return ("cpu", "nvme") if has_drive else ("cpu",)


@contextmanager
def _show_progress() -> "Iterator[ShowRun]":
    """Show a bar with what is measured and the time left."""
    from tqdm import tqdm

    with tqdm(desc="measuring", unit="run", disable=None, leave=False) as bar:

        def show(text: str, done: int, all_runs: int) -> None:
            bar.total = all_runs
            bar.set_postfix_str(text, refresh=False)
            bar.update(done - bar.n)

        yield show
