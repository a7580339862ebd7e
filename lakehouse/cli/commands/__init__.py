"""One module per command, which parses, calls and prints. Code that several commands share belongs in ``cli``."""
