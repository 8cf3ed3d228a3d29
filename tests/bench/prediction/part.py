"""The command of the error table: profiles, replays and predictions of all cells, one after another."""

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from replayer.prediction.profile import Profile
from replayer.prediction.profile_file import load_profile, save_profile
from tests.bench.disks import fast_disk
from tests.bench.prediction.cells import (
    THROTTLE,
    Cell,
    Medium,
    Values,
    make_cells,
    measure,
    measure_profile,
    predict,
    read_metrics,
)
from tests.bench.prediction.rules import BY_PEAK, RULES, name_work, predict_by_peak
from tests.bench.prediction.table import Repeats, Row, write_json, write_markdown

MEDIA: Final = ("throttled", "ram", "disk")
REPEATS: Final = 10
QUICK_REPEATS: Final = 3


def main(arguments: Sequence[str]) -> None:
    """Measure, predict, and show the tables; `python -m tests.bench predict --help`."""
    options = _parse(arguments)
    began = time.monotonic()
    rows, repeats = list[Row](), list[Repeats]()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        cells = make_cells(Path(name), quick=options.quick)
        for medium in _open_media(options, Path(name), stack):
            table = MediumTable(medium, cells, options.out, Path(name) / "run")
            profile = table.find_profile(options.profiles or options.out)
            trials = 1 if options.quick else options.trials
            repeats.append(table.measure_all(trials, QUICK_REPEATS if options.quick else REPEATS))
            table.predict_all(profile)
            rows += table.rows
            minutes = (time.monotonic() - began) / 60
            (options.out / "table.json").write_text(json.dumps(write_json(rows, repeats, minutes), indent=1))
            (options.out / "table.md").write_text(write_markdown(rows, repeats, minutes))
    print((options.out / "table.md").read_text())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench predict", description=main.__doc__)
    parser.add_argument("--medium", choices=MEDIA, action="append", help="only these")
    parser.add_argument("--folder", type=Path, help="on the disk that is measured; needed for the medium disk")
    parser.add_argument("--ram", type=Path, help="on a disk over RAM; without it one is mounted, which needs root")
    parser.add_argument("--out", type=Path, default=Path("predict"), help="folder for tables and profiles")
    parser.add_argument("--profiles", type=Path, help="folder of profiles that were measured before")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one load, one capacity, one trial, three repeats")
    options = parser.parse_args(arguments)
    options.medium = options.medium or [one for one in MEDIA if one != "disk" or options.folder]
    if "disk" in options.medium and options.folder is None:
        parser.error("the medium disk needs --folder")
    return options


def _open_media(options: argparse.Namespace, folder: Path, stack: contextlib.ExitStack) -> Iterator[Medium]:
    """Give each medium with a folder of its own; a disk over RAM is mounted once."""
    ram = options.ram
    if ram is None and set(options.medium) & {"throttled", "ram"}:
        ram = stack.enter_context(fast_disk(folder))
    for name in options.medium:
        place = options.folder if name == "disk" else ram
        cache = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place)))
        yield Medium(name, cache, THROTTLE if name == "throttled" else ())


class MediumTable:
    """The rows of one medium.

    Args:
        medium: where the nvme tier is.
        cells: what is replayed.
        out: folder for profiles.
        run: run directory, used again and again.

    Attributes:
        rows: one per cell.
    """

    def __init__(self, medium: Medium, cells: Sequence[Cell], out: Path, run: Path) -> None:
        self._medium, self._cells, self._out, self._run = medium, cells, out, run
        self.rows = [Row(medium.name, cell.load.name, cell.capacity, cell.workers) for cell in cells]

    def find_profile(self, folder: Path) -> Profile:
        """Load the medium's profile; measure it if the folder has none."""
        path = folder / f"{self._medium.name}.toml"
        if not path.exists():
            self._say("profile")
            measure_profile(self._medium, path)
        return load_profile(path)

    def measure_all(self, trials: int, repeats: int) -> Repeats:
        """Replay all cells, trial by trial; the first cell is replayed more often, evenly over the whole time."""
        again = list[Values]()
        total = trials * len(self._cells)
        for turn in range(total):
            self._repeat(again, repeats * turn // total + 1)
            index = turn % len(self._cells)
            self._say(f"trial {turn // len(self._cells) + 1}, {self._cells[index].name}")
            self.rows[index].measured.append(measure(self._cells[index], self._medium, self._run))
            self.rows[index].nearby.append(again[-1])
        self._repeat(again, repeats)
        return Repeats(self._medium.name, self._cells[0].name, again)

    def _repeat(self, again: list[Values], count: int) -> None:
        """Replay the first cell until it was replayed so often."""
        while len(again) < count:
            again.append(measure(self._cells[0], self._medium, self._run))

    def predict_all(self, profile: Profile) -> None:
        """Predict all cells, by the profile and by the simpler rules."""
        full = self._out / "full.toml"
        save_profile(profile, full)
        for cell, row in zip(self._cells, self.rows, strict=True):
            self._say(f"predict {cell.name}")
            row.predicted = predict(cell, full, self._run)
            row.rules[BY_PEAK] = predict_by_peak(profile, read_metrics(self._run, name_work(profile)))
            for name, simplify in RULES.items():
                simple = self._out / "simple.toml"
                save_profile(simplify(profile), simple)
                row.rules[name] = predict(cell, simple, self._run)

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self._medium.name}: {what}", flush=True)
