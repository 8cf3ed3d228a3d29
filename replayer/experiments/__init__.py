"""Experiments: commands that make several replays, each in a process of its own."""
