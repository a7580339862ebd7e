"""Later facts about audit rows: consumers were notified of them, or their values were redacted.

The rows themselves are append-only. Writing and reading them is in ``silver.audit_log``.
"""
