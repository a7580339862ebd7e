"""The speed layer in a metric's contract: how its stream runs, and which difference from published numbers is an alert."""
