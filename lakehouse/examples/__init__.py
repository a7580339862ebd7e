"""Generated data for the demo and the simulation; seeded. No product code reads from here."""
