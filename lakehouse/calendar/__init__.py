"""Days and periods as every layer counts them. Plain Python: no tables, no contracts, no wall clock."""
