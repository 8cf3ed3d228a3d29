"""Equal work: spans in which two systems did as much, and their metrics over these."""
