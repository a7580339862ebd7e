"""A new project: its folder, and contracts inferred from sample files."""
