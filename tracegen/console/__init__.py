"""Console code of all three command lines: errors, signals, quantities and progress bars."""
