"""Ten healthy configurations, on which every check is silent; and three rules that cost hits there."""

import random

import pytest

from replayer.arrangements.loading import load_arrangement
from replayer.questions.why import diagnose
from tests.replayer.questions.cases import found, plan_evidence, trace
from tracegen.schema import Columns

TOKENS = 512
HEALTHY = (
    *("waterfall", "spillover", "aibrix-all", "aibrix-evicted", "lmcache", "mlperf", "mooncake"),
    *("sglang-write-back", "sglang-write-through", "vllm"),
)


@pytest.fixture(scope="module")
def chat() -> Columns:
    """Sixty users; most requests come from those who asked last, some from any user before."""
    chance = random.Random(1)
    history: list[list[int]] = [[] for _ in range(60)]
    requests = []
    for key in range(480):
        newest = key // 8
        user = chance.randrange(max(0, newest - 3) if chance.random() < 0.8 else 0, newest + 1)
        requests.append([*(f"r{known}" for known in history[user][-12:]), f"w{key}"])
        history[user].append(key)
    return trace(requests, tokens=TOKENS)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_where_every_tier_is_used(name: str, chat: Columns) -> None:
    made = plan_evidence(chat, load_arrangement(name), 30 * TOKENS, 90 * TOKENS, 400 * TOKENS)
    assert diagnose(made) == []
    assert all(made.count(f"hits_{tier}") > 0.05 * made.count("reads") for tier in ("gpu", "cpu", "nvme"))


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("kvbm", "taken only after several touches"),
        ("sglang-selective", "copied only after several touches"),
        ("aibrix-hot", "copied only after several touches"),
    ],
)
def test_rules_that_wait_for_touches_cost_hits_there(name: str, cause: str, chat: Columns) -> None:
    findings = found(chat, load_arrangement(name), 30 * TOKENS, 90 * TOKENS, 400 * TOKENS)
    assert findings[cause].counts["more_spared_tokens"] > 100 * TOKENS
