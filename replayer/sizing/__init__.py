"""The least memory that reaches targets on a trace (`docs/sizing.md`)."""
