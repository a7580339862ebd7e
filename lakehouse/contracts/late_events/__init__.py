"""Late events in a metric's contract."""
