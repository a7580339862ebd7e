"""What a file, a key or a range of days affects, and the row changes behind a published revision. Reading only."""
