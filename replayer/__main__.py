"""`python -m replayer`."""

from replayer.cli import main

main()
