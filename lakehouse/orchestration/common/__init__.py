"""What Dagster assets, sensors and runs share: partitions, tags, events, cursors, resources."""
