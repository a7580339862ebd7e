"""Backtests: two versions of a model on the same rows, month by month, with intervals and acceptance rules.

``resampling`` and ``comparison`` are functions of arrays; ``backtest`` selects the rows and stores the report.
"""
