"""Numbers with their nouns."""

from tracegen.command_line import counted


def test_one_is_singular_and_nothing_else_is() -> None:
    assert [counted(number, "trial") for number in (0, 1, 2, 1000)] == [
        "0 trials",
        "1 trial",
        "2 trials",
        "1,000 trials",
    ]
    assert [counted(number, "criterion", "criteria") for number in (1, 5)] == ["1 criterion", "5 criteria"]
