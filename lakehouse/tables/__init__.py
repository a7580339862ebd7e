"""Spark and Delta: one module a layer, DataFrames in, commits out. Nothing here knows Dagster.

``session`` builds Spark, ``delta`` is the edge where commits are made, ``reader`` reads without a JVM; ``bronze``,
``silver`` and ``gold`` hold what is particular to a layer.
"""
