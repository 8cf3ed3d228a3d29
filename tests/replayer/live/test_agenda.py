"""Which replay of a series is going on, and how long the rest takes, by hand."""

from replayer.experiments.agenda import Agenda, Place
from replayer.live.figures import Figures


class Dated:
    """An agenda whose clock stands at `now_s`."""

    def __init__(self, *names: str) -> None:
        self.now_s = 0.0
        self.agenda = Agenda(names, lambda: self.now_s)

    def place(self, left_s: float | None) -> Place:
        return self.agenda.find_place(Figures("replaying", "s", 1, 2, left_s))


def test_cases_and_trials_are_numbered() -> None:
    agenda = Dated("a/trial_1", "a/trial_2", "b/trial_1", "b/trial_2").agenda
    agenda.begin("b/trial_1")
    assert agenda.find_place() == Place("b/trial_1", "case 2 of 2, trial 1 of 2", "b/trial_2")
    agenda.begin("b/trial_2")
    assert agenda.find_place() == Place("b/trial_2", "case 2 of 2, trial 2 of 2")


def test_what_there_is_one_of_is_not_numbered() -> None:
    trials = Agenda(["run-1", "run-2"])
    trials.begin("run-1")
    assert trials.find_place() == Place("run-1", "trial 1 of 2", "run-2")
    only = Dated("run")
    only.agenda.begin("run")
    assert only.place(5) == Place("run")


def test_the_rest_takes_as_long_as_this_replay_then_as_those_that_have_ended() -> None:
    series = Dated("a/trial_1", "a/trial_2", "a/trial_3")
    series.agenda.begin("a/trial_1")
    assert series.place(None).left_s is None
    series.now_s = 4
    assert series.place(6).left_s == 6 + 2 * 10, "this one takes 10 s in all"
    series.now_s = 12
    series.agenda.end()
    series.agenda.begin("a/trial_2")
    series.now_s = 13
    assert series.place(7).left_s == 7 + 12, "the first took 12 s"


def test_replays_that_are_decided_on_the_way_are_counted() -> None:
    series = Dated()
    for name in ("users_1/trial_1", "users_2/trial_1"):
        series.agenda.begin(name)
    assert series.place(5) == Place("users_2/trial_1", "replay 2"), "nobody knows how many follow"


def test_a_replay_that_is_not_on_the_agenda_has_a_name_only() -> None:
    agenda = Agenda(["a/trial_1"])
    agenda.begin("a/predicted")
    assert agenda.find_place() == Place("a/predicted", "in between")
