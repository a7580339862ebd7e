"""Promotion and rollback of dataset versions: compatibility, plan, commit and log."""
