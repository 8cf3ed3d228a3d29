"""The commands of `analysis`."""
