"""Questions that plans answer without I/O: how much memory, which settings, why so little."""
