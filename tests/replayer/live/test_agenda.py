"""Which replay of a series is going on, and how long the rest takes, by hand."""

from msgspec.structs import replace

from replayer.live.agenda import Agenda
from replayer.live.figures import Figures

HALF = Figures("replaying", "s", 1, 2, 6)


class Dated:
    """An agenda whose clock stands at `now_s`."""

    def __init__(self, *names: str) -> None:
        self.now_s = 0.0
        self.agenda = Agenda(names, lambda: self.now_s)

    def begin(self, name: str) -> Figures:
        self.agenda.begin(name)
        return self.agenda.place(HALF)


def test_a_replay_has_a_number_and_the_series_takes_as_long_as_the_replays_that_have_ended() -> None:
    series = Dated("a", "b", "c")
    assert series.begin("a") == replace(HALF, replay="replay 1 of 3: a", next="b", left_in_all_s=6 + 2 * 6)
    series.now_s = 4
    assert series.agenda.place(HALF).left_in_all_s == 6 + 2 * 10, "this one takes 10 s in all"
    assert series.agenda.place(Figures("starting")).left_in_all_s is None
    series.now_s = 12
    series.agenda.end()
    assert series.begin("b").left_in_all_s == 6 + 12, "the first took 12 s"
    assert series.begin("c") == replace(HALF, replay="replay 3 of 3: c", left_in_all_s=6)


def test_a_replay_without_others_has_no_place_and_one_decided_on_the_way_is_counted() -> None:
    assert Dated("run").begin("run") == HALF
    search = Dated()
    search.begin("users_1/trial_1")
    assert search.begin("users_2/trial_1").replay == "replay 2: users_2/trial_1"
