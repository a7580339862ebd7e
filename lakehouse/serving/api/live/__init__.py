"""The API of the speed layer: numbers by layer, and reconciliations."""
