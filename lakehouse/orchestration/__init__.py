"""Dagster, thin: assets, checks, policies and sensors made from contracts. What they do is in ``tables``."""
