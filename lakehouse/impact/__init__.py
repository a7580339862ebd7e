"""The effects of a file, a key or a range of days, and the row changes behind a published revision. Read-only."""
