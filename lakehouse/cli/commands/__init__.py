"""One module a command: it parses, calls, and prints. What two commands share is in ``cli``."""
