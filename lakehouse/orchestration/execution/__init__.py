"""Runs started by a command, in this process or through Dagster's webserver: replays, catching up, backfills."""
