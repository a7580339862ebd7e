"""Derived metrics in contracts: what a metric that is made of other metrics reads of them, and the rules between such contracts.

How the numbers are computed and published belongs to ``gold.derived``.
"""
