"""The speed layer in the contract of a metric: how its stream runs, and what a difference from the books means."""
