"""Scores of events: assignment of entities to versions, the table of scores, canaries, and the checks of a day's scores."""
