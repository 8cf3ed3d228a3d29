"""Comparison with other tools: kv-cache.py's criteria, vLLM's and LMCache's results."""
