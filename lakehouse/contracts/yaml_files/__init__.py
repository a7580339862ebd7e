"""Reads YAML files of contracts with the lines of their keys."""
