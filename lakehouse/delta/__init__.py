"""Delta tables through delta-rs: reading, appending, replacing partitions, commit metadata, change feed, storage.

Code that knows what a table holds does not belong here; reading and writing with Spark is in ``lakehouse.spark``.
"""
