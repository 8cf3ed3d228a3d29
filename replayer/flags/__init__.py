"""The flags of `replayer plan` and `replayer run`."""
