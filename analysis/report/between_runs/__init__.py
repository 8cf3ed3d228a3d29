"""Figures on what runs have in common: load, trials, predictions."""
