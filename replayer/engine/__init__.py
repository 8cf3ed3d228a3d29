"""The engine: threads that execute a plan."""
