"""Running a deployment: alerts, notices, backfills, maintenance, and the channels that messages go through.

Dagster's side of these (sensors, jobs, runs) is in ``orchestration``.
"""
