"""The speed layer: numbers within seconds from a stream over Bronze, beside the books and never among them.

``query`` runs the stream, ``reconciliation`` explains how its numbers differ from the published ones.
"""
