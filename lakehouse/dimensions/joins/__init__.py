"""Facts joined with dimensions: as of their event time, and found again when an attribute of theirs has changed.

``as_of`` joins DataFrames. ``interval_changes`` is the rule by which changed intervals become changed ranges of time, Arrow in,
Arrow out; by ``fact_index``, ``changed_facts`` finds the facts within them. ``join_keys`` is the text of the columns joined on.
"""
