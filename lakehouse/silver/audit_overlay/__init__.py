"""What is recorded of audit rows after they were written: that consumers were notified, and that values were redacted.

The rows themselves are append-only. Writing and reading them is in ``silver.audit_log``.
"""
