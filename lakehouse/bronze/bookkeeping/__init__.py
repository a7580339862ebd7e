"""What follows the append of deliveries to Bronze, whether they are files or ranges of messages."""
