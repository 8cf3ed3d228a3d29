"""The comparison of two or more systems in a report."""
