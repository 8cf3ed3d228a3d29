"""The trace file from below: metadata, invariants and the compiled check of them."""
