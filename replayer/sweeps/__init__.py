"""Sweeps that ship with the tool, by name."""
