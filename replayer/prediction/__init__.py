"""Executing plans on the computed clock of a measured machine (docs/predicting.md)."""
