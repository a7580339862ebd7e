"""The steps after the append of deliveries to Bronze, for files and for ranges of messages."""
