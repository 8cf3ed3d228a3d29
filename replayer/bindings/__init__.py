"""Bindings to the compiled core."""
