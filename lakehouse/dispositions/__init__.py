"""The disposition of each Bronze row: admission, row rules, the winner of a key, and the account of every row (R4).

Rules on single cases are plain Python: ``admission``, ``reprocess_policy``. Rules on sets of rows take and return Arrow tables:
``judged_rows``, ``winners``. Writing silver belongs in ``silver``.
"""
