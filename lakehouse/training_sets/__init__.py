"""Training sets: the events that a model learns from, with features as they were known then and labels as they were released.

What a set contains, how it is built, recorded and made again belongs here; what learns from it belongs to ``models``.
"""
