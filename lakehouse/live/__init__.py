"""The speed layer: numbers within seconds, from a stream over Bronze, kept apart from the published numbers.

``stream`` computes the numbers, ``reconcile`` and ``causes`` explain how they differ from the published ones.
"""
