"""The report of a sweep: what arrangements and sizes do, as `replayer simulate` planned them."""
