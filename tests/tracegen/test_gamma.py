"""The gamma tables are what their generator makes, and fit the law."""

import pytest

from tests.tracegen import make_gamma_gaps
from tracegen.draws import FILE, load_gaps
from tracegen.recipes.recipe import SHAPES


def test_the_shipped_tables_are_what_the_generator_makes() -> None:
    assert FILE.read_text() == make_gamma_gaps.table()


def test_recipes_may_ask_for_the_shapes_of_the_tables() -> None:
    assert set(SHAPES) == {1, *make_gamma_gaps.SHAPES}


@pytest.mark.parametrize(("shape", "kept"), [(0.5, 0.998), (0.25, 0.997), (0.1, 0.992)])
def test_a_table_has_the_mean_and_nearly_the_variance_of_its_law(shape: float, kept: float) -> None:
    gaps = load_gaps(shape)
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(2**20, rel=1e-6)
    assert variance == pytest.approx(kept * mean**2 / shape, rel=1e-3)
