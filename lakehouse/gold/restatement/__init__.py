"""Which periods change and what their new numbers are: daily numbers from silver, roll-ups from published days."""
