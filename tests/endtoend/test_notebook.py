"""The notebook: its cells run from top to bottom on a tier without a drive, and what it shows is stored in it."""

import re
from typing import Any

import pytest

from tests.support import notebooks

STORED = notebooks.read()


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The notebook as it is after it ran, and the names that it defines."""
    notebook, place = notebooks.read(), tmp_path_factory.mktemp("notebook")
    return notebook, notebooks.execute(
        notebook, place, instead={"--throttle nvme=300 --cache-dir cache": "--layout null"}
    )


def shown(notebook: dict[str, Any]) -> list[str]:
    """What each cell shows: text, or the name of a picture."""
    outputs = [(output, output.get("data", {})) for cell in notebooks.programs(notebook) for output in cell["outputs"]]
    return ["PNG" if "image/png" in data else "".join(one.get("text", data.get("text/plain"))) for one, data in outputs]


def test_the_cells_run_and_count_what_they_show(executed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    notebook, names = executed
    planned = names["planned"].summary
    (info,) = names["run"].info
    assert info.plan_fingerprint == planned.plan_fingerprint, "the plan in the notebook is not that of its runs"
    assert names["curve"]["from memory"][0] == 0
    assert names["summary"].metrics["misses"] == planned.misses
    assert names["reads"].height == planned.hits.cpu + planned.hits.nvme
    assert names["trials"]["tok_s"].min() > 0
    assert re.search(r"^model \| .* \| ", shown(notebook)[-1])


def test_what_is_stored_is_what_the_cells_show(executed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Traces and plans are equal everywhere; the times of replays are those of the machine that made the notebook."""
    stored, now = shown(STORED), shown(executed[0])
    assert [text == "PNG" for text in stored] == [text == "PNG" for text in now]
    before_replays = next(i for i, text in enumerate(now) if text.startswith("dram-1: complete"))
    assert before_replays >= 5
    assert stored[:before_replays] == now[:before_replays]
    assert "ratio  95% interval" in stored[-3]
