"""What a source's contract says about changes: how a record marks one, their order, envelopes, and how they become intervals."""
