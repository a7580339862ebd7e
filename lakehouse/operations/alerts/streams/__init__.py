"""Alerts about streams: stopped or lagging live streams, their state, and the lag of a topic."""
