"""Reproducible random numbers."""
