"""Messages in the wire format of a schema registry, and the schemas that they name."""
