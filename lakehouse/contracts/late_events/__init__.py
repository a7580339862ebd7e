"""What a metric's contract decides about late events."""
