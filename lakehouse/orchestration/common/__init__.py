"""Shared by Dagster assets, sensors and runs: partitions, tags, events, cursors, resources."""
