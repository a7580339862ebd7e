"""Delta tables through delta-rs: appending, replacing partitions, commit metadata, change feed, storage.

Code that depends on the content of a table does not belong here. A table itself, and reading it, is in ``lakehouse.lake``.
Reading and writing with Spark is in ``lakehouse.spark``.
"""
