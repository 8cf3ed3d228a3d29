"""Replays traces on a waterfall of KV-cache tiers and logs every move."""
