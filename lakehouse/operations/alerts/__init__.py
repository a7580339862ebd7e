"""Alerts: rules, signals, the log of openings and resolutions, and delivery.

Plain Python: ``alert``, ``rules``, ``input_rules``, ``run_rules``. Dagster's records of runs and checks
are read in ``orchestration``.
"""
