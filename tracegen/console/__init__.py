"""Console code that the command lines of all three packages share."""
