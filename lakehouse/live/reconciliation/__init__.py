"""The reconciliation of live numbers with the books: each difference, and its causes by name."""
