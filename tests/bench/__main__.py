"""`make bench`: each figure beside its reference, measured in turn in one run. Nothing here gates anything.

python -m tests.bench [PART…]; without parts, all that this machine can run but analysis100, which takes minutes and 3 GB.
python -m tests.bench predict [OPTION…]: the error table of predictions, half an hour; --help shows the options.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench import analysis_part, comparison_part, replay_part, traces_part, validity_part
from tests.bench.prediction import part as prediction_part

PARTS = {
    "tokenizer": traces_part.tokenizer,
    "generator": traces_part.generator,
    "planner": traces_part.planner,
    "null": replay_part.null,
    "openloop": replay_part.openloop,
    "disk": replay_part.disk,
    "requests": replay_part.requests,
    "throttle": replay_part.throttle,
    "validity": validity_part.validity,
    "comparison": comparison_part.comparison,
    "gpu": replay_part.gpu,
    "analysis": analysis_part.analysis,
    "analysis100": analysis_part.analysis100,
}
NEED_DISKS = ("disk", "requests", "throttle")


def lacks(part: str) -> str | None:
    """What this machine lacks for a part."""
    if part in NEED_DISKS and (os.geteuid() != 0 or shutil.which("fio") is None):
        return "it needs root and fio"
    if part == "gpu":
        try:
            import torch
        except ImportError:
            return "it needs PyTorch"
        return None if torch.cuda.is_available() else "it needs a GPU"
    return None


def main() -> None:
    """Run the benchmarks named, or all."""
    if sys.argv[1:2] == ["predict"]:
        prediction_part.main(sys.argv[2:])
        return
    for part in sys.argv[1:] or [part for part in PARTS if part != "analysis100"]:
        if reason := lacks(part):
            print(f"{part}: skipped, {reason}")
            continue
        with tempfile.TemporaryDirectory() as name:
            PARTS[part](Path(name))


if __name__ == "__main__":
    main()
