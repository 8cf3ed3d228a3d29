"""Measuring of profiles: cells on real tiers, and the model that fits them."""
