"""Output files: traces and others, each written whole or not at all."""
