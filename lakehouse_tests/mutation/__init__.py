"""Mutation tests: change one place of the product, and see whether a test fails. ``lakehouse_tests.mutants`` is the command."""
