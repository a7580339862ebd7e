"""Notices of restated numbers to consumers: what they contain, which are pending, their log and delivery.

Plain Python: ``notice``.
"""
