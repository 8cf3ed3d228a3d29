"""Submissions to MLPerf Storage's KV cache benchmark, as packages that anyone can check."""
