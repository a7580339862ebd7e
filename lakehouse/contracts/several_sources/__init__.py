"""Metrics with several sources: the contract of each source entry, and whether the sources fit each other."""
