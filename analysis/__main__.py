"""`analysis`, and `python -m analysis`."""

from tracegen.console.interrupts import end_at_once


def main() -> None:
    """Run the command line."""
    end_at_once()  # the import takes up to a second
    from analysis.cli import main as command  # noqa: PLC0415

    command()


if __name__ == "__main__":
    main()
