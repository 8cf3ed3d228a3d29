"""`python -m tracegen`."""

from tracegen.cli import main

main()
