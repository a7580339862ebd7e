"""Published numbers: the table and its reading, publication, restatement, promotion and reproduction."""
