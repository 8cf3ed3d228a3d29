"""`replayer profile`: measure how long the tiers of this machine take."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from tqdm import tqdm

from replayer.commands.shared.profile_answer import answer_profile
from replayer.commands.shared.resolving import resolve_io
from replayer.commands.shared.screens import TerminalScreen
from replayer.flags.flag_types import ListOf
from replayer.flags.plan_flags import add_options
from replayer.flags.run_flags import CACHE_OPTIONS, TIER_OPTIONS, TierFlags
from replayer.prediction.profile import Profile
from replayer.prediction.profile_file import load_profile, save_profile
from replayer.profiling.measuring import measure_profile
from replayer.profiling.rounds import WORKERS, ShowRun
from replayer.record.columns import TIERS
from replayer.record.options import DEVICE_LAYOUTS
from replayer.record.run_info import Tier
from replayer.run.settings import Settings
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import InputError
from views.formats import FORMATS

_BUDGET_S: Final = 120
PROFILE_OPTIONS: Final = (
    *CACHE_OPTIONS,
    click.option(
        "--tier",
        "tiers",
        type=ListOf(click.Choice(TIERS)),
        metavar="TIER,…",
        help="Tiers to measure: gpu, cpu, nvme.  [default: cpu,nvme with --cache-dir, else cpu]",
    ),
    *TIER_OPTIONS,
    click.option(
        "--budget",
        type=Quantity(SECONDS, low=1, high=86400),
        default=_BUDGET_S,
        show_default=True,
        metavar="S",
        help="Time that measuring should take, in seconds or with a unit: 30s, 5m.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON."),
    click.option("--force", is_flag=True, help="Replace the profile if it exists."),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        required=True,
        metavar="FILE",
        help="The profile to write, a TOML file.",
    ),
)


def measuring_options(command: Any) -> Any:
    """Add the flags of `replayer profile` to a command."""
    return add_options(PROFILE_OPTIONS, command)


@click.command(epilog="Example: replayer profile --cache-dir /mnt/nvme -o drive.toml")
@measuring_options
def profile(
    output: Path,
    tiers: tuple[Tier, ...] | None,
    budget: float,
    *,
    as_json: bool,
    force: bool,
    **flags: Any,
) -> None:
    """Measure this machine's tiers for `replayer predict`.

    The profile is for replays with the same layout, I/O and verification. Nothing else should run
    on the machine meanwhile (docs/predicting.md).
    """
    _check_output(output, force=force)
    values = TierFlags(**flags)
    wanted = tiers or _default_tiers(values)
    if "nvme" in wanted and values.cache_dir is None and values.layout in DEVICE_LAYOUTS:
        raise InputError("the nvme tier needs a place", "pass `cache_dir=DIR`", setting="tiers")
    screen = TerminalScreen()
    io, notes = resolve_io(values, max(WORKERS))
    for note in notes:
        screen.warn(note)
    settings = Settings(
        workers=max(WORKERS),
        cache_dir=values.cache_dir,
        layout=values.layout,
        io=io,
        verify=values.verify,
        gpu_device=values.gpu_device,
        gpu_read=values.gpu_read,
        throttles=dict(values.throttle),
        make_cache_dir=values.make_cache_dir,
    )
    with INTERRUPTS.defer(), _show_progress() as progress:
        result = measure_profile(
            output.stem,
            wanted,
            settings,
            float(budget),
            progress,
            screen.warn,
            INTERRUPTS.check,
        )
    _save(result.profile, output)
    answer = answer_profile(load_profile(output), result.skipped, output)
    click.echo(FORMATS["json" if as_json else "txt"](answer), nl=False)


def _default_tiers(flags: TierFlags) -> tuple[Tier, ...]:
    has_drive = flags.cache_dir is not None or flags.layout not in DEVICE_LAYOUTS
    return ("cpu", "nvme") if has_drive else ("cpu",)


def _check_output(output: Path, *, force: bool) -> None:
    """Refuse an output that cannot be written, before two minutes are spent."""
    problem = None
    if os.path.lexists(output) and not (force and output.is_file()):
        problem = "exists" if output.is_file() else "is not a file"
    elif not output.absolute().parent.is_dir():
        problem = "is in a folder that does not exist"
    if problem:
        remedy = "name another, or pass `force`" if problem == "exists" else "name another"
        raise InputError(problem, remedy, subject=output, setting="output")


def _save(measured: Profile, output: Path) -> None:
    try:
        save_profile(measured, output)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        remedy = "name another"
        raise InputError(problem, remedy, subject=output, setting="output") from None


@contextmanager
def _show_progress() -> Iterator[ShowRun]:
    """Show a bar with what is measured and the time left."""
    with tqdm(desc="measuring", unit="run", disable=None, leave=False) as bar:

        def show(text: str, done: int, all_runs: int) -> None:
            bar.total = all_runs
            bar.set_postfix_str(text, refresh=False)
            bar.update(done - bar.n)

        yield show
