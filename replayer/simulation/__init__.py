"""Grids of plans: many cells of one trace, planned without I/O (docs/simulating.md)."""
