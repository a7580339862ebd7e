"""Delta tables through delta-rs: reading, appending, replacing partitions, commit metadata, change feed, storage.

Code that depends on the content of a table does not belong here; reading and writing with Spark is in ``lakehouse.spark``.
"""
