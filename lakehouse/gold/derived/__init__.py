"""Derived metrics: numbers made of published numbers of other metrics, restated when one of these is (rule R15).

``restate`` publishes them. The other modules read inputs and compute, and contain nothing about publishing; the rules for every
number are in ``gold.restatement``, which uses these modules for the inputs that a derived series follows and waits for.
"""
