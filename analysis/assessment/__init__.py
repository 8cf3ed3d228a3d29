"""Comparison with others: kv-cache.py's criteria, a server's counters beside a plan."""
