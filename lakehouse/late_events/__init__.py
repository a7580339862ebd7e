"""Late events of a metric: which rows come after their window, how they are handled, and the tables that record it.

``left_out`` decides which rows are late and which do not count, Arrow in, Arrow out; ``silver/<source>_late`` and the counts of
deliveries are copies for readers. Lateness in general belongs to ``lateness``, the contract's terms to ``contracts.publication``,
and computing numbers to ``gold``.
"""
