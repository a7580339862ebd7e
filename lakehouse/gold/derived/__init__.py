"""Derived metrics: numbers made of published numbers of other metrics, restated when one of these is (rule R15).

``restate`` publishes them. The other modules read inputs and compute, and know nothing of publishing; the rules that every
number has stand in ``gold.restatement``, which asks them what a derived series follows and waits for.
"""
