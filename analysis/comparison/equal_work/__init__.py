"""Equal work: what a run did by when, the spans in which two systems did as much, and their metrics there."""
