"""The speed layer: numbers within seconds, from a stream over Bronze, kept apart from the published numbers.

``query`` runs the stream, ``reconciliation`` explains how its numbers differ from the published ones.
"""
