"""The flags of `replayer`: their declarations, types and values."""
