"""Backtests: two versions of a model on the same rows, month by month, with intervals, and whether its acceptance rules are met.

``resampling`` and ``comparison`` are rules on arrays; which rows are compared, and where the report lies, is decided in
``backtest``.
"""
