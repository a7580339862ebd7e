"""Restatement: which periods have to be computed again, and their new numbers: days from Silver, longer periods from days."""
