"""Seeded, reproducible traces of KV-cache operations."""
