"""The picture of the live view in docs/replaying.md, drawn anew by `python -m tests.support.view_picture`.

The figures are those of a sweep of the demo's trace: 0.1 GiB of DRAM, `--pace closed --speedup 12 --duration 25`.
"""

import io
import re
from typing import Final

from rich.console import Console

from replayer.commands.live.frame import draw_frame
from replayer.experiments.agenda import Place
from replayer.live.figures import Figures, TierRate
from tests.support.paths import ROOT

PICTURE: Final = ROOT / "docs" / "live-view.svg"
COLUMNS: Final = 84
FIGURES: Final = Figures(
    stage="replaying",
    unit="s",
    done=13.57,
    total=25,
    left_s=11.43,
    tiers={"cpu": TierRate(0.812, 0.061), "nvme": TierRate(0.0, 0.063)},
    hit_rate=0.97279,
    nvme_read_p95_ms=148.9,
    first_byte_p95_ms=448.8,
    in_flight=2,
)
PLACE: Final = Place("dram-cpu_mem_gb=0.1/trial_3", "case 1 of 3, trial 3 of 3", "dram-cpu_mem_gb=0.2/trial_1", 95.7)
RATES: Final = {
    "cpu": [1.63, 0.91, 0.78, 0.81, 1.8, 1.46, 0.6, 1.77, 1.44, 0.7, 0.45, 0.91, 0.87],
    "nvme": [0.51, 0.97, 0.95, 0.69, 0.51, 0.87, 0.45, 0.6, 0.17, 0.1, 0.23, 0.17, 0.06],
}
ABOVE: Final = (
    "dram-cpu_mem_gb=0.1/trial_1: complete, 2,469 ops",
    "dram-cpu_mem_gb=0.1/trial_2: complete, 2,469 ops",
)


def draw_picture() -> str:
    """Return the view as SVG, without fonts from the network."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
    for line in ABOVE:
        console.out(line, highlight=False)
    console.print(draw_frame(FIGURES, PLACE, RATES, console))
    console.out("")
    picture = console.export_svg(title="replayer sweep", unique_id="live-view")
    offline = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S)
    return offline.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


if __name__ == "__main__":
    PICTURE.write_text(draw_picture())
