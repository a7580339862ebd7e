"""Alerts: the rules, the signals they read, the log of what opened and closed, and their delivery.

Plain Python: ``alert``, ``rules``.
"""
