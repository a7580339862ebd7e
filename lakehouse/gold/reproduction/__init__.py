"""Making a published revision again from the inputs it names (R10)."""
