"""Seeded card payments with late chargebacks, and the contracts from them to a model of fraud. No product code reads from here.

Only the texts of files are made here; the caller writes them. The contracts are the YAML files of the folder ``contracts``.
"""
