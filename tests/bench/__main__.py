"""`make bench`: each figure of docs/performance.md beside its reference, measured in turn. Nothing here gates anything.

python -m tests.bench [PART…]; without parts, all of DEFAULT that this machine can run.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench import analysis_part, comparison_part, disk_part, prediction_part, replay_part, validity_part

DEFAULT = {
    "planner": replay_part.planner,
    "null": replay_part.null,
    "openloop": replay_part.openloop,
    "disk": disk_part.disk,
    "validity": validity_part.validity,
    "comparison": comparison_part.comparison,
    "gpu": replay_part.gpu,
    "analysis": analysis_part.analysis,
}
BY_NAME = {"analysis100": analysis_part.analysis100}  # takes minutes and 3 GB


def lacks(part: str) -> str | None:
    """What this machine lacks for a part."""
    if part == "disk" and (os.geteuid() != 0 or shutil.which("fio") is None):
        return "it needs root and fio"
    if part == "gpu":
        try:
            import torch
        except ImportError:
            return "it needs PyTorch"
        return None if torch.cuda.is_available() else "it needs a GPU"
    return None


def main() -> None:
    """Run the benchmarks named, or those of DEFAULT; `predict` has options of its own."""
    if sys.argv[1:2] == ["predict"]:
        prediction_part.main(sys.argv[2:])
        return
    for part in sys.argv[1:] or DEFAULT:
        if reason := lacks(part):
            print(f"{part}: skipped, {reason}")
            continue
        with tempfile.TemporaryDirectory() as name:
            (DEFAULT | BY_NAME)[part](Path(name))


if __name__ == "__main__":
    main()
