"""The rows of a source at a time: which inputs were known, the rows that follow from them, and files of these rows."""
