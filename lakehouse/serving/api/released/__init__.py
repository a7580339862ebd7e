"""Releases and their use: labels, training sets, models, promotions, and the impact of corrections on them."""
