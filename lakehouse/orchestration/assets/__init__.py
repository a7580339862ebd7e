"""Dagster assets and asset checks, made from contracts."""
