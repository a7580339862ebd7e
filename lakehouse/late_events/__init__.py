"""Late events of a metric: which rows come after their window, how they are handled, and the tables that record it.

Arrow in, Arrow out: ``classification``. ``left_out`` decides which rows do not count; ``silver/<source>_late`` and the counts of
deliveries are copies for readers. Lateness in general belongs to ``lateness``, the contract's terms to ``contracts.late_events``,
and computing numbers to ``gold``.
"""
