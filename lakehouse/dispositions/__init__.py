"""What becomes of each Bronze row: admission, row rules, the winner of a key, and the account of every row (R4).

Plain Python: ``admission``, ``verdicts``, ``reprocess_policy``. How silver is written belongs in ``silver``.
"""
