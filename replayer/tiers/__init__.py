"""The places where objects lie while a trace is replayed. `contract.Tier` is what each of them does."""
