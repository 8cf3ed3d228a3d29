"""The report of a search for users, as `replayer autoscale` recorded it."""
