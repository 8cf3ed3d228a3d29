"""Entry point of `tracegen` and `python -m tracegen`."""

from tracegen.console.interrupts import end_at_once


def main() -> None:
    """Run the command line."""
    end_at_once()  # before the import below, which takes up to a second
    from tracegen.cli import main as run_command  # noqa: PLC0415

    run_command()


if __name__ == "__main__":
    main()
