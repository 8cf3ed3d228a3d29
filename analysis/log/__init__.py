"""The log as metrics read it: sums per cell, requests, exact quantiles."""
