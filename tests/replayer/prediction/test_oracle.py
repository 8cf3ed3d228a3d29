"""The compiled predictor against the oracle that was written from docs/predicting.md alone, row by row."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from tests.replayer.prediction.compiled_run import check
from tests.replayer.prediction.worlds import World, worlds
from tracegen.schema import ENUMS

DECODE = ENUMS["phase"].index("decode")


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


@of("trace", 120)
def test_users_who_share_objects(world: World) -> None:
    """All fits into one tier, so that ops wait for a store and trade places with its op, of any other session."""
    generated = world.batch["new_tokens"] * (world.batch["phase"] == DECODE)
    alike = world.batch | {"new_tokens": generated, "session_id": world.batch["request_id"]}
    check(replace(world, batch=alike, table={}, tiers=(0, 0, None)))


@of("live", 40)
def test_placement_that_is_decided_on_the_way(world: World) -> None:
    check(world)
