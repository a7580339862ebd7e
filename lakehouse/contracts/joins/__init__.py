"""Joins of metrics with dimensions: their part of a contract, and whether they fit the sources."""
