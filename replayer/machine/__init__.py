"""The machine: its description, free memory, and the kernel's counters."""
