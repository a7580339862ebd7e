"""What a file, a key or a range of days affects, and the row changes that a published revision contains. Read-only."""
