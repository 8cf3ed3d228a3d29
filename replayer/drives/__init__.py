"""Profiles from data sheets, as TOML (docs/predicting.md)."""
