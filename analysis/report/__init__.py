"""A report of runs: one HTML file that needs neither network nor script, or the same numbers in other formats."""
