"""The Dagster layer: assets, checks, sensors and schedules built from contracts. The layers below do the work."""
