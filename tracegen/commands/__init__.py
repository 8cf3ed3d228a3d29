"""The commands of `tracegen`."""
