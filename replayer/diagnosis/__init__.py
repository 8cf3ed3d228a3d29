"""Reasons why a tier brings little, found in a plan's counts."""
