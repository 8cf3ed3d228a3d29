"""Predictions against measurements of the same work."""
