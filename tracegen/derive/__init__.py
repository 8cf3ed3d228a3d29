"""Traces made from traces: merge, slice and scale."""
