"""The trace format: columns, metadata, fingerprint, and reading and checking of trace files."""
