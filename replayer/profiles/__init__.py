"""Profiles: how long the tiers of a machine take, measured or from published figures."""
