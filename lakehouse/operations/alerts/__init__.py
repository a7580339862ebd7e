"""Alerts: the rules, the signals they read, the log of what opened and closed, and their delivery.

Plain Python: ``alert``, ``rules``, ``input_rules``, ``run_rules``, ``rhythm``, ``routing``. What Dagster knows of runs and checks
is read in ``orchestration``.
"""
