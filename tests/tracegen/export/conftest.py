"""Traces to export."""

import numpy as np
import pytest

from tests.support import traces
from tests.support.imports import EXCERPT, imported
from tests.tracegen.export.exports import STEPS
from tracegen.recipes.recipe import Mix, Prefix, Recipe
from tracegen.schema import Trace


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    changes = {"time_ns": np.arange(7) * 1_500_000_000}
    return traces.write(tmp_path_factory.mktemp("small") / "t.parquet", traces.columns(STEPS, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return imported("mooncake", EXCERPT, tmp_path_factory.mktemp("blocks") / "t.parquet", tail="full")


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Sessions of several turns in blocks, with decode reads and stored answers, users' requests interleaved."""
    blocks = {"block_tokens": 64, "save_decode": True, "decode_reads": True}
    recipe = Recipe(users=9, requests=80, mix=Mix(personas=1), prefix=Prefix(share=0.5, tokens=(200,)), **blocks)
    return traces.write(tmp_path_factory.mktemp("office") / "t.parquet", traces.made(recipe), block_tokens=64)
