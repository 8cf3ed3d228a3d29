"""Parts that several commands share: consoles, displays, tables, resolution of flags."""
