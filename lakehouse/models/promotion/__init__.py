"""The model version in use: the conditions for a promotion, promotion and rollback, and their log."""
