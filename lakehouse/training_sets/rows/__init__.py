"""The parts of a set's rows: records with the start of their knowledge, histories of values, and the as-of join.

Combining them belongs to ``event_rows``.
"""
