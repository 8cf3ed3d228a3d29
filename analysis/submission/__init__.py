"""Submissions: what MLPerf Storage asks of the KV cache benchmark, as packages that anyone can check."""
