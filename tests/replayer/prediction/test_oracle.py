"""The compiled predictor against the oracle that was written from docs/predicting.md alone, row by row."""

from typing import Any

from hypothesis import given, settings

from tests.replayer.prediction.compiled_run import differences
from tests.replayer.prediction.worlds import World, foretold, worlds


def check(world: World) -> None:
    assert not differences(world, foretold(world))


def of(kind: str, cases: int) -> Any:
    """A test's decorator: so many runs, most of them of dozens of ops."""

    def decorate(test: Any) -> Any:
        return settings(max_examples=cases, deadline=None)(given(worlds((kind,), least=20))(test))

    return decorate


@of("trace", 40)
def test_a_plan_in_the_order_of_the_trace(world: World) -> None:
    check(world)


@of("reference", 40)
def test_a_plan_in_the_order_of_a_reference_system(world: World) -> None:
    check(world)


@of("run", 40)
def test_a_plan_in_the_order_of_another_run(world: World) -> None:
    """Ops wait for others that are not due, and evictions are pulled."""
    check(world)


@of("live", 40)
def test_placement_that_is_decided_on_the_way(world: World) -> None:
    check(world)
