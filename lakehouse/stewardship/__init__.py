"""Stewards' decisions about single rows: the quarantine, decisions, redaction."""
