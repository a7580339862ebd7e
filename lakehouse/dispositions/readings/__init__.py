"""Readings: rows of Bronze whose raw records were parsed again with another result, and which row is in force.

``table`` defines ``bronze/<source>_readings``, ``in_force`` overlays Bronze with it (Arrow), ``frames`` does so for Spark.
Parsing raw records belongs in ``reparse``.
"""
