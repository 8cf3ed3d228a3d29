"""Other labs' formats, one file each: `read` turns rows into calls, `write` turns a trace into rows."""
