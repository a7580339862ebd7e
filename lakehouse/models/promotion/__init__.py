"""Which version of a model is in use: what a promotion needs, the promotion and the rollback, and their log."""
