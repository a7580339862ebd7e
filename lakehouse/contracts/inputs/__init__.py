"""The arrival and reading of a source's records: landing files, or the messages of a Kafka topic."""
