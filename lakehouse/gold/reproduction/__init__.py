"""Reproduction of a published revision from the inputs that it names (R10), and the contracts that were in force then."""
