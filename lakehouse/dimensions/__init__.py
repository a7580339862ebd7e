"""Dimensions: what facts are joined with, as of their event time.

Rules are Arrow in, Arrow out: ``interval_changes``. ``as_of`` joins facts with intervals, ``fact_index`` knows where the facts of
a key are, ``changed_facts`` which facts a change of intervals concerns.
"""
