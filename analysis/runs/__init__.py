"""Run directories, opened."""
