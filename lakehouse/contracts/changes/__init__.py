"""What a source's contract says about changes: how a record marks one, their order, and the envelope that says both."""
