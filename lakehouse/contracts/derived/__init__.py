"""Derived metrics in contracts: what a derived metric reads from its input metrics, and the rules between their contracts.

Computing and publishing the numbers belongs to ``gold.derived``.
"""
