"""The summary of a run: metrics, doubts and verdict, as data and as text."""
