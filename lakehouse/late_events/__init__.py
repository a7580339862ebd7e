"""Late events of a metric: which rows come after their window, what becomes of them, and the tables that tell.

Arrow in, Arrow out: ``classification``. Which rows the numbers are computed from follows from ``left_out``;
``silver/<source>_late`` and the counts of deliveries are copies to be read. How late rows are in general belongs to ``lateness``,
what the contract says to ``contracts.late_events``, and computing numbers to ``gold``.
"""
