"""The stream of a metric: the rows that it counts, its checkpoint, its batches, and how it runs."""
