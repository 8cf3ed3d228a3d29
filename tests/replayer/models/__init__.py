"""Tests of the geometry of models."""
