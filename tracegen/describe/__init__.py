"""Descriptions of traces: facts, reuse, pictures, differences."""
