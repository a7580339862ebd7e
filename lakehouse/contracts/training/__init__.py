"""Contracts of training sets and models: the entity of a row, its features, its label; how a model learns, and when it is used.

The keys belong here. Building sets and training models belongs to ``training_sets`` and ``models``.
"""
