"""Spark: the session, its JARs, Spark Connect, local DataFrames, and Delta commits made by Spark.

Nothing here knows what a table means. Code that needs no Spark session belongs in ``delta``.
"""
