"""What a file, a key or a range of days touches, and which rows are behind a change. Reading only."""
