"""Planning: the moves of a trace for a model, capacities and an order, before any I/O."""
