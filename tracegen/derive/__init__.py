"""Traces made from traces: merge, slice, scale."""
