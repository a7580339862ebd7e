"""Facts joined with dimensions as of their event time, and the facts whose attributes have changed.

``as_of`` joins DataFrames. ``interval_changes`` is the rule that turns changed intervals into changed ranges of time, Arrow in,
Arrow out; ``changed_facts`` finds the facts in these ranges through ``fact_index``. ``join_keys`` is the text of the join
columns.
"""
