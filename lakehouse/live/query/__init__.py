"""The stream of a metric: what it counts, its checkpoint, its batches, and how it runs."""
