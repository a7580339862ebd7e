"""Table maintenance: compaction, checkpoints, and deletion of files that are no longer needed.

Plain Python: ``rules``.
"""
