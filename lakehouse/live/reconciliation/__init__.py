"""The reconciliation of live numbers with published numbers: each difference, and its causes by name."""
