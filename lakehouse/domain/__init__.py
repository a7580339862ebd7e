"""The rules as plain Python: what a record is, which record of a key wins, what a change means.

Nothing here imports Spark, Dagster or Delta, opens a table, or asks for the time.
"""
