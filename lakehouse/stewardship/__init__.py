"""What people decide about single rows: the quarantine, decisions, redaction."""
