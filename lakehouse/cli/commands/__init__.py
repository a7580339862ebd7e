"""One module per command, which parses, calls and prints. Code shared by commands belongs in ``cli``."""
