"""Dimensions: the intervals in which the attributes of a key are valid, from the changes that silver holds.

``interval_table`` has the rule, a function from a table of changes to a table of intervals. It keeps the stored tables up to date
by this rule, together with ``buckets``; ``joins`` joins facts with the intervals, also with those that the rule gives for a set
of inputs from Bronze; ``tables`` reads the intervals at a moment. Parsing changes belongs to ``bronze``, choosing the change that
holds for a key and an event time to ``silver``.
"""
