"""Profiles estimated from published figures, as TOML (docs/predicting.md)."""
