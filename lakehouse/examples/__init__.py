"""Seeded example data for the demo and the simulation. No product code reads from here."""
