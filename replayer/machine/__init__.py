"""The machine: its description, free memory and kernel counters."""
