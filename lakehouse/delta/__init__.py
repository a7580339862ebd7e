"""Delta tables through delta-rs: reading, appending, replacing partitions, commit metadata, change feed, storage.

Nothing here knows what a table means; no Spark. Spark's side of Delta is in ``spark``.
"""
