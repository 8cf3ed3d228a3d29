"""The oracle of pacing on a case worked by hand."""

from replayer.planning.pace import Pace
from tests.replayer.pacing.pacing_oracle import Due, due_times

MS = 1_000_000  # ns


def test_the_oracle_by_hand() -> None:
    """One user, 2 ms a token, 1,000 tokens per second of prefill; ops take 5 ms.

    Request 0 at 10/2 ms: an op of 3 tokens to compute (3 ms), then at 5 + 5 + 3 = 13 ms two more, one after the other,
    13..18..23 ms, which generate 4 + 1 tokens (10 ms): done at 33 ms. Request 1 thinks for 8/2 ms: due at 37 ms.
    """
    ops = [
        Due(0, 0, 0, 0, 10 * MS, 0, 0, 3),
        Due(1, 0, 0, 1, 11 * MS, 0, 4, 0),
        Due(2, 0, 0, 1, 11 * MS, 0, 1, 0),
        Due(3, 1, 0, 0, 12 * MS, 8 * MS, 0, 0),
    ]
    pace = Pace("closed", 2, 2, 1000, 1)
    assert list(due_times(ops, pace, lambda _, due: due + 5 * MS, {}).values()) == [5 * MS, 13 * MS, 18 * MS, 37 * MS]
