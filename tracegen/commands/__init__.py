"""The commands of `tracegen`, by subject."""
