"""Opened run directories."""
