"""Table maintenance: compaction, checkpoints, and deletion of files that nobody reads any more.

Plain Python: ``rules``.
"""
