"""Reference systems: small profiles of tiers, on whose virtual clock plans are ordered."""
