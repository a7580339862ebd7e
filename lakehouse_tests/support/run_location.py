"""A code location that writes down which run its process was started for, and has a single asset."""

import os
from pathlib import Path

import dagster as dg

from lakehouse.orchestration.dagster_internals import run_of_process

run = run_of_process(__name__)
Path(os.environ["RUN_LOCATION_WRITES"]).write_text(run.run_id if run else "no run")


@dg.asset
def number() -> None: ...


defs = dg.Definitions([number])
