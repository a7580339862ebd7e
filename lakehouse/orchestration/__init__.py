"""The Dagster layer: assets, checks, sensors and schedules built from contracts. What they run belongs to the layers below."""
