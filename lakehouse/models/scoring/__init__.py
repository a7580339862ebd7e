"""Scores of events: which version scores which entity, the table of scores, canaries, and the checks of a day's scores."""
