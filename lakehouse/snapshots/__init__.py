"""The rows of a source at a time: the inputs known then, the rows computed from them, and files with these rows."""
