"""Seeded card payments with late chargebacks, and contracts that lead to a fraud model. No product code reads from here.

Only the texts of files are generated here; the caller writes them. The contracts are the YAML files of the folder ``contracts``.
"""
