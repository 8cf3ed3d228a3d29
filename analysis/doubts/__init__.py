"""Doubts: findings on a run, with advice; some make the run invalid."""
