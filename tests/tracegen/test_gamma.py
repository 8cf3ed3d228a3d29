"""The gamma tables fit their laws."""

import pytest

from tracegen.draws import load_gaps
from tracegen.recipes.recipe import SHAPES


@pytest.mark.parametrize(("shape", "kept"), [(0.5, 0.998), (0.25, 0.997), (0.1, 0.992)])
def test_a_table_has_the_mean_and_nearly_the_variance_of_its_law(shape: float, kept: float) -> None:
    assert shape in SHAPES
    gaps = load_gaps(shape)
    assert list(gaps) == sorted(gaps)
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(2**20, rel=1e-6)
    assert variance == pytest.approx(kept * mean**2 / shape, rel=1e-3)
