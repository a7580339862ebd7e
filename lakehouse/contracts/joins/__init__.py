"""Joins of metrics with dimensions: what a contract says of them, and whether they fit the sources."""
