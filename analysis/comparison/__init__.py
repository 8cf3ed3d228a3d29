"""Comparison of systems: trials, matched configurations, ratios, verdicts."""
