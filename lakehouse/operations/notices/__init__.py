"""Notices to consumers about restated numbers and rejected rows: content, pending notices, log and delivery.

Plain Python: ``notice``.
"""
