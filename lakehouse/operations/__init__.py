"""Operation of a deployment: alerts, notices, backfills, maintenance, and message channels.

Dagster's side of these (sensors, jobs, runs) is in ``orchestration``.
"""
