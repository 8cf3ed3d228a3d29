"""The commands of `replayer`."""
