"""The centre: what a deployment is, and the tables that it keeps open. No rules, and no features."""

from lakehouse.lake.lake import Lake, SimulatedClock

__all__ = ["Lake", "SimulatedClock"]
