"""Restatement: the periods that must be computed again, and their new numbers.

Days are computed from Silver, longer periods from days, derived metrics from the numbers of their inputs. ``pending`` determines
the periods; ``silver_tables`` and ``silver_rows`` read the rows that count.
"""
