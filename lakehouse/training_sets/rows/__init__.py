"""What the rows of a set are made of: records with the time they were known from, histories of values, and the as-of join.

Putting them together belongs to ``event_rows``.
"""
