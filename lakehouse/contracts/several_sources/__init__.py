"""Metrics that read several sources: what a contract says of each of them, and whether they fit each other."""
