"""Moving readers to another dataset version: compatibility, plan, commit, log."""
