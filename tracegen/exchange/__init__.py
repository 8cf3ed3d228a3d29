"""Conversion between traces and other labs' formats."""
