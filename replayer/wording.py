"""Words of messages that several modules share."""


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun: 1 trial, 3 trials, 1,000 trials."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
