"""A published number: its table, its states, its versions, and how two of them compare.

Plain Python: ``lifecycle``, ``comparison``, ``version_selector``. Making a number public belongs in ``gold.publication``.
"""
