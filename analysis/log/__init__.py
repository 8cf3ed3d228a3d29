"""The log of a run, condensed for metrics: sums per cell, times per request, exact quantiles."""
