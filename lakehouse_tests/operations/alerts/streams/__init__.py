"""Tests of the alerts about streams."""
