"""Notices of restated numbers and rejected rows to consumers: what they contain, which are pending, their log and delivery.

Plain Python: ``notice``, ``rejection``.
"""
