"""Where the records of a source arrive and how they are read: files of landing, or the messages of a Kafka topic."""
