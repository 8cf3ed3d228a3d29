"""One run: pre-flight checks, opened tiers, execution, and the log."""
