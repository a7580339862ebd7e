"""Dagster assets and asset checks, built from contracts."""
