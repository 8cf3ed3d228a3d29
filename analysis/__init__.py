"""Metrics and verdicts from run directories, offline and as often as anyone likes."""
