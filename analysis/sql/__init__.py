"""SQL queries over a run's log."""
