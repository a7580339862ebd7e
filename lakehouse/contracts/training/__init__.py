"""Contracts of training sets and models: what a row is about, its features, its label; how a model learns, and when it is used.

Their keys belong here. What is done with them belongs to ``training_sets`` and ``models``.
"""
