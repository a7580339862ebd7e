"""Training sets: the events that a model learns from, with features as known at the event and labels as released.

The content, building, recording and reproduction of sets belong here; training belongs to ``models``.
"""
