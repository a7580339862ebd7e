"""Dagster sensors, schedules and jobs that start runs."""
