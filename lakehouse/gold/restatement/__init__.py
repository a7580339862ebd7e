"""Restatement: the periods that must be computed again, and their new numbers: days from Silver, longer periods from days."""
