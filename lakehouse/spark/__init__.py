"""Spark: the session, its JARs, Spark Connect, local DataFrames, and Delta commits made by Spark.

Nothing here depends on the meaning of a table. Code that needs no Spark session belongs in ``delta``.
"""
