"""Descriptions of traces: facts, reuse distances, pictures and comparisons."""
