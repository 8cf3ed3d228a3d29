"""Numbers with their nouns."""

from tracegen.errors import format_count


def test_only_the_count_one_is_singular() -> None:
    assert [format_count(number, "trial") for number in (0, 1, 2, 1000)] == [
        "0 trials",
        "1 trial",
        "2 trials",
        "1,000 trials",
    ]
    assert [format_count(number, "criterion", "criteria") for number in (1, 5)] == ["1 criterion", "5 criteria"]
