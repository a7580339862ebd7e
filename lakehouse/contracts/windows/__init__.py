"""Windows shorter than a day, in the contract of a metric."""
