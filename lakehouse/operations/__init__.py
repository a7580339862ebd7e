"""Operation of a deployment: alerts, notices, backfills, changes by people, maintenance, and delivery of messages.

``maintain`` and ``retention`` are table maintenance, ``damaged_tables`` repairs data files, ``delivery`` sends the messages of
alerts and notices. Dagster's side of these (sensors, jobs, runs) is in ``orchestration``.
"""
