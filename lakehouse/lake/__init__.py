"""The centre: what a deployment is, and the tables that it keeps open. No rules, and no features."""

from lakehouse.lake.lake import Lake, SimulatedClock
from lakehouse.lake.table import Table, is_any_beyond, newest_versions

__all__ = ["Lake", "SimulatedClock", "Table", "is_any_beyond", "newest_versions"]
