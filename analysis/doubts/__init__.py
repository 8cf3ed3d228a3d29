"""Doubts: findings on a run that say how far to trust it, or invalidate it."""
