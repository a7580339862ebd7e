"""Dimensions: the intervals in which the attributes of a key are valid, from the changes that silver holds.

``intervals`` is the rule, a function from a table of changes to a table of intervals. ``buckets`` and ``interval_table`` keep
stored tables up to date by this rule; ``as_then`` applies it to Bronze for a set of inputs; ``interval_reads`` reads the
intervals at a moment. Parsing changes belongs to ``bronze``, choosing the change that holds for a key and an event time to
``silver``.

Joining metrics with dimensions belongs to ``joins``.
"""
