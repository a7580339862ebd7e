"""Alerts about streams: live numbers that are not kept up, their state, and the lag of a topic."""
