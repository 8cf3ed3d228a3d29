"""The figures of an execution while it runs."""
