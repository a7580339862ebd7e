"""Corrections that a person enters: a changed, withdrawn or new record, with the approvals that contracts require."""
